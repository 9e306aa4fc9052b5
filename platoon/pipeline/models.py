"""What a configuration samples, judged before any service is asked: models, renderers and their settings.

Reads what is sound of the values as they were loaded, whatever else is wrong with them: so every fault comes in one report.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from platoon.config.load import LoadedConfig
from platoon.errors import ConfigError, Problem
from platoon.eval.config_defs import EvaluationConfig, InferenceConfig
from platoon.pipeline.kinds import Kind
from platoon.sampling.model_spec import ModelSpec
from platoon.train.config_defs.entries import AgentsConfig, PolicyConfig
from platoon.train.config_defs.run import RunConfig
from platoon.train.config_defs.training import TrainConfig
from platoon.train.policy.spec import MAIN
from platoon.train.trainer.renderers import early_renderers, section_of

ADDRESS = "tinker_base_url"
# Of a section that names none, or none that could be one: what has no name is not judged.
UNNAMED = {"model_name": "", "renderer_name": ""}


def model_problems(loaded: LoadedConfig, kind: Kind, told: Iterable[Problem] = ()) -> Iterator[Problem]:
    """Renderers and embedded models that are none; of a model that only its service knows, the settings.

    told: what is wrong already with the values, each by themselves; the keys it is told of are left out.
    """
    blamed = {problem.key for problem in told}
    try:
        early_renderers(_sampled(loaded.values, kind, blamed))
    except ConfigError as error:
        for problem in error.problems:
            rule = f"{problem.file}: {problem.rule}" if problem.file else problem.rule
            yield Problem(rule, problem.key, loaded.file_of(tuple(problem.key.split("."))), problem.advice)


def _sampled(values: Mapping[str, Any], kind: Kind, blamed: Collection[str]) -> dict[str, ModelSpec]:
    """What is sampled, by section."""
    address = None if ADDRESS in blamed else values.get(ADDRESS)
    if kind == "evaluation":
        inference = InferenceConfig.model_construct(**UNNAMED | _sound(values, "inference", blamed))
        found = {"inference": EvaluationConfig.model_construct(inference=inference, tinker_base_url=address).model_spec()}
    else:
        train = TrainConfig.model_construct(**UNNAMED | _sound(values, "train", blamed))
        own = {MAIN: PolicyConfig(), **_policies(values, blamed)}
        run = RunConfig.model_construct(train=train, policies=own, tinker_base_url=address)
        read = _read(values, blamed, own)
        found = {section_of(policy): run.model_spec(policy) for policy in own if policy in read}
    # Where the service is decides what its models are called.
    lost = {section for section in found if f"{section}.{ADDRESS}" in blamed}
    return {
        section: replace(spec, model_name="") if section in lost or (ADDRESS in blamed and spec.base_url is None) else spec
        for section, spec in found.items()
    }


def _policies(values: Mapping[str, Any], blamed: Collection[str]) -> dict[str, PolicyConfig]:
    named = values.get("policies")
    policies = named if isinstance(named, dict) else {}
    return {
        name: PolicyConfig.model_construct(**_sound(policies, name, blamed, "policies."))
        for name in policies
        if f"policies.{name}" not in blamed
    }


def _read(values: Mapping[str, Any], blamed: Collection[str], policies: Collection[str]) -> Collection[str]:
    """The policies that some agent samples; all where it is not known which do."""
    if values.get("trainer", "rl") != "rl":
        return {MAIN}
    if any(key.partition(".")[0] == "agents" for key in blamed):
        return policies
    return AgentsConfig.model_validate_json(json.dumps(values.get("agents", {}))).sampled


def _sound(values: Mapping[str, Any], name: str, blamed: Collection[str], above: str = "") -> dict[str, Any]:
    """The keys of a section that nothing is wrong with."""
    section = values.get(name)
    if not isinstance(section, dict):
        return {}
    return {key: value for key, value in section.items() if f"{above}{name}.{key}" not in blamed}
