"""Parameters and schemas: from a call's text to values of the domain, or Nacos's words of refusal."""
