"""The base of every configuration model: unknown keys refused, strict types, frozen, finite numbers.

A model owns its keys; rules that span keys go into `checks`, which yields every problem and never raises. A `Problem` yielded there
has its key relative to the model; the kit puts path and file in front.

    class Optimizer(ConfigModel):
        learning_rate: PositiveFloat = 3e-5
        beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from platoon.config.text import printable
from platoon.errors import Problem

PROBLEMS_ERROR = "config_problems"
# Characters: of a longer name nothing is a slip, and the search takes their square.
MOST_SEARCHED = 100
# Characters: two names of so few share some by chance.
SHORT = 5

PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
# Free-form: the component that is named beside it judges the contents.
Options = dict[str, Any]


class ConfigModel(BaseModel):
    """Frozen, strict (True is no number, "1" is no number, 1 is a float), refuses unknown keys, NaN and infinities."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    def checks(self) -> Iterable[Problem]:
        """Every broken rule that spans keys; run once all keys are valid by themselves."""
        return ()

    @model_validator(mode="after")
    def _run_checks(self) -> Self:
        if found := tuple(self.checks()):
            raise problems_error(found)
        return self

    def plain(self, *, only_set: bool = False) -> dict[str, Any]:
        """The model as JSON values with every default, or with the keys that were given alone."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=only_set)


def problems_error(found: Sequence[Problem]) -> PydanticCustomError:
    """What a validator raises to report several problems, or one with a key of its own."""
    text = "; ".join(f"{problem.key}: {problem.rule}" if problem.key else problem.rule for problem in found)
    # The text goes in as a parameter: braces in it must not be read as a template.
    return PydanticCustomError(PROBLEMS_ERROR, "{text}", {"text": text, "problems": tuple(found)})


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean <known name>`, or what is known when nothing is near; "" when nothing is."""
    names = sorted(known)
    return did_you_mean(name, names) or (f"known here: {', '.join(names)}" if names else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean <known name>`, "" when nothing is near: for names of data, of which there may be thousands."""
    near = closest(name, known)
    return f"did you mean {printable(near)}?" if near is not None else ""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that may have been meant; None when nothing is near."""
    import difflib

    cutoff = 0.7 if len(name) <= SHORT else 0.6
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff) if len(name) <= MOST_SEARCHED else ()
    return close[0] if close else None


def unknown_keys(given: Mapping[str, Any], known: Iterable[str], where: str = "") -> Iterator[Problem]:
    """A problem for each key of a free-form mapping that the component does not know."""
    names = set(known)
    for key in given:
        if key not in names:
            yield Problem("unknown key", key=f"{where}.{key}" if where else key, advice=nearest(key, names))
