"""Types of single values that several sections share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False)]
AtLeastOne = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
# Policy ids and role names also name files and metric prefixes.
PolicyId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]

MAIN = "main"
