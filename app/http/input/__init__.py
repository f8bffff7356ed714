"""From the text of a call to values of the domain: parameters, schemas, and Nacos's words of refusal."""
