"""What an evaluation hands on: its identity, its report and its receipt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import platoon
from platoon.artifacts.canonical import canonical_digest, read_json
from platoon.artifacts.publish import WRITABLE, publish_bytes, publish_json
from platoon.artifacts.receipts import write_receipt
from platoon.config.numbers import score
from platoon.config.text import counted
from platoon.core.outcome import fault_text
from platoon.errors import PlatoonError
from platoon.eval import report as reports
from platoon.eval.config_defs import EvaluationConfig
from platoon.eval.plan import plan_rollouts
from platoon.eval.store import COLLECTION, EvaluationStore, RolloutRecord
from platoon.train.config_defs.entries import EnvironmentConfig

# Below the directory of an evaluation.
REPORTS = "reports"


@dataclass(frozen=True)
class Weights:
    """What is evaluated. path: sampler weights on the service, None for the base model. digest: of what they were made from.

    run and step: of the training that saved them, "" and None without one.
    """

    path: str | None = None
    digest: str = "base"
    run: str = ""
    step: int | None = None
    version: int = 0


def weights_of(receipt: Mapping[str, Any]) -> Weights:
    """The weights a training receipt names."""
    checkpoint = receipt["checkpoint"]
    return Weights(
        str(checkpoint["sampler_path"]),
        str(checkpoint["weights"]),
        str(receipt["run"]),
        int(receipt["steps"]),
        int(checkpoint["policy_version"]),
    )


def provenance(config: EvaluationConfig, weights: Weights, digests: Mapping[str, str]) -> dict[str, Any]:
    """What must be the same for rollouts to be counted together; no path, no address, no limit on time or numbers."""
    own = config.inference
    return {
        "model": own.model_name,
        "weights": weights.digest,
        "renderer": canonical_digest([own.renderer_name, own.renderer_kwargs, own.context_window_length]),
        "seed": config.seed,
        "split": config.split,
        "settings": canonical_digest([_entry_facts(config, entry) for entry in config.environments]),
        "datasets": digests.get("datasets.lock.json", ""),
    }


def own_directory(config: EvaluationConfig, weights: Weights, digests: Mapping[str, str], name: str) -> PurePosixPath:
    """The output directory of a named evaluation below the root of runs: one for each thing evaluated.

    A run that was extended or changed is evaluated anew, beside what it was before; what was there counts again if it comes back.
    """
    key = canonical_digest(provenance(config, weights, digests)).removeprefix("sha256:")[:12]
    step = "" if weights.step is None else f"{weights.step:06d}-"
    return PurePosixPath(weights.run or "base") / f"eval-{name}" / f"{step}{key}"


def _entry_facts(config: EvaluationConfig, entry: EnvironmentConfig) -> dict[str, Any]:
    """An entry without the site's part: where a sandbox runs is not what is evaluated."""
    facts = entry.plain()
    kwargs = {key: value for key, value in facts["service_kwargs"].items() if key not in ("provider", "provider_options")}
    return {**facts, "service_kwargs": kwargs, "rollout": config.rollout_config(entry).plain()}


@dataclass(frozen=True)
class Results:
    """A finished evaluation. records: in the order of the plan. digests: of the input files."""

    name: str
    config: EvaluationConfig
    weights: Weights
    store: EvaluationStore
    records: Sequence[RolloutRecord]
    digests: Mapping[str, str] = field(default_factory=dict)

    def publish(self, receipt: Path | None) -> str:
        """Writes the reports, then the receipt; a line for a person. Raises PlatoonError when nothing could be measured."""
        report = self.report()
        summary = report["summary"]
        if not summary["valid_rollouts"]:
            first = next(record for record in self.records if record.errored)
            rule = f"none of {counted(len(self.records), 'rollout')} could be measured"
            raise PlatoonError(
                f"{rule}; the first, task {first.task_id!r}: {fault_text(first.failure_kind, first.error, first.status)}"
            )
        directory = self.store.directory / REPORTS
        lines = [json.dumps(task, sort_keys=True, ensure_ascii=False) for task in report["tasks"]]
        publish_bytes(directory / "task_results.jsonl", "".join(f"{line}\n" for line in lines).encode(), WRITABLE)
        own = self.config.inference
        more = {
            "model": {"model_name": own.model_name, "model_path": self.weights.path, **self.store.provenance},
            "workflow_config": own.workflow.plain(),
            "elapsed_seconds": self.store.elapsed_s(),
        }
        publish_json(directory / "final_report.json", {**report, **more}, WRITABLE)
        if receipt is not None:
            write_receipt(receipt, "evaluation", self.receipt(report))
        text = f"mean reward {score(summary['reward_mean'])} over {counted(summary['valid_rollouts'], 'rollout')}"
        return (
            text
            + _counted("graded without a model call", summary["unasked_counts"])
            + _counted("without a measurement", summary["fault_counts"])
        )

    def report(self) -> dict[str, Any]:
        workflow = self.config.inference.workflow
        return reports.final_report(self.records, workflow.success_threshold, timeout_fails=workflow.count_timeout_as_failure)

    def receipt(self, report: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": self.name,
            "run": self.weights.run,
            "step": self.weights.step,
            "weights": self.weights.digest,
            "inputs": dict(self.digests),
            "identity": canonical_digest(dict(self.store.provenance)),
            "seed": self.config.seed,
            "platoon": platoon.__version__,
            "figures": reports.receipt_figures(report, self.store.elapsed_s()),
            "tasks": reports.receipt_tasks(report),
            "example": self._example(),
        }

    def _example(self) -> dict[str, Any] | None:
        best = reports.best_example(self.records)
        if best is None:
            return None
        rollout = plan_rollouts([(best.entry, [best.task_id])], best.index + 1)[best.index]
        path = self.store.path(rollout) / COLLECTION
        return reports.example(best, read_json(path, "trajectory collection")) if path.exists() else None


def _counted(what: str, counts: Mapping[str, int]) -> str:
    """How many, and why; empty for none."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in counts.items())
    return f", {sum(counts.values())} {what}: {reasons}" if counts else ""
