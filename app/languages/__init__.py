"""The texts of the console and of the command in other languages than English, as gettext catalogues."""
