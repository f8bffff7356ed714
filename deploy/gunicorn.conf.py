"""For ``gunicorn -c deploy/gunicorn.conf.py app.wsgi:app``; the configuration itself comes with the package."""

# gunicorn takes every name of this module that is a setting or a hook of its own.
from app.gunicorn_conf import *  # noqa: F403
