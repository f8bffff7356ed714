"""The cause of a failure of Spark, by Spark's own error conditions rather than by the words of a Java exception."""

from dataclasses import asdict, dataclass, field
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

CHARS_MAX = 500
PARAMETERS_MAX = 16
CAUSES_MAX = 16
_CONTROL = dict.fromkeys((*range(32), 127), " ")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of Spark. ``condition`` is that of Spark's list of errors; None for an error that is not in it."""

    condition: str | None
    message: str
    """One line, of at most ``CHARS_MAX`` characters."""
    parameters: dict[str, str] = field(default_factory=dict)
    """The values in the condition's text, such as ``path``."""

    @property
    def line(self) -> str:
        """Condition and message in one line."""
        said = self.condition is None or self.message.startswith(f"[{self.condition}]")
        return self.message if said else f"[{self.condition}] {self.message}"

    def as_field(self) -> dict[str, Any]:
        return asdict(self)


def failure_of(error: Exception) -> Failure:
    """Return the failure behind an exception: the first cause for which Spark has a condition, else the last cause."""
    if isinstance(error, PySparkException):
        if condition := error.getCondition():
            return _failure(condition, str(error), error.getMessageParameters())
        return _failure(None, str(error), None)
    if isinstance(error, Py4JJavaError):
        return _of_java(error)
    return _failure(None, str(error) or type(error).__name__, None)


def _of_java(error: Py4JJavaError) -> Failure:
    cause = last = error.java_exception
    for _ in range(CAUSES_MAX):
        if cause is None:
            break
        try:
            if condition := cause.getCondition():
                return _failure(condition, cause.getMessage(), cause.getMessageParameters())
        except (Py4JError, TypeError):
            pass  # an exception that is none of Spark's has no such method
        last, cause = cause, cause.getCause()
    return _failure(None, f"{last.getClass().getSimpleName()}: {last.getMessage()}", None)


def _failure(condition: str | None, message: str | None, parameters: Any) -> Failure:
    told = list(dict(parameters or {}).items())[:PARAMETERS_MAX]
    return Failure(condition, _short(message or ""), {str(name): _short(str(value)) for name, value in told})


def _short(text: str) -> str:
    """Return the first paragraph of a text, in one line."""
    first = text.strip().partition("\n\n")[0]
    return " ".join(first.translate(_CONTROL).split())[:CHARS_MAX]
