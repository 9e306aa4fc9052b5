"""Image plans and maps."""

from __future__ import annotations

import pytest

from platoon.errors import ConfigError, NotPreparedError
from platoon.images.image_map import image_map, image_of
from platoon.images.plan import ImageNeed, plan_images

pytestmark = pytest.mark.unit

KEY = "sha256:" + "a" * 64
NONE = {"kind": "none"}
PREBUILT = {"kind": "prebuilt", "ref": "debian:12"}
BUILT = {"kind": "shared", "key": KEY}


def test_order_of_tasks_does_not_show() -> None:
    needs = [ImageNeed("process", f"t{number}", "environment", image) for number, image in enumerate((NONE, PREBUILT, BUILT, NONE))]
    plan = plan_images(needs)
    assert plan == plan_images(reversed(needs))
    images = plan["providers"]["process"]["images"]
    assert {key: (entry["kind"], entry["tasks"], entry["example"]) for key, entry in images.items()} == {
        "none": ("local", 2, "t0"),
        "ref:debian:12": ("local", 1, "t1"),
        KEY: ("local", 1, "t2"),
    }
    assert (plan["build"], plan["pins"]) == ([], [])


def test_the_process_provider_needs_nothing_built() -> None:
    mapped = image_map(plan_images([ImageNeed("process", "t", "environment", BUILT)]))
    assert image_of(mapped, "process", KEY)["image"] == "local"
    with pytest.raises(NotPreparedError, match="run platoon prepare"):
        image_of(mapped, "process", "none")


def test_other_providers_need_what_is_planned() -> None:
    plan = plan_images([ImageNeed("docker", "t", "environment", BUILT), ImageNeed("docker", "u", "verifier", PREBUILT)])
    assert plan["build"] == [KEY]
    with pytest.raises(NotPreparedError, match=f"no image for 1 key, {KEY}"):
        image_map(plan)
    mapped = image_map(plan, {KEY: {"image": "platoon-harbor:x", "builder": "docker"}})
    assert image_of(mapped, "docker", "ref:debian:12")["image"] == "docker://debian:12"
    assert image_of(mapped, "docker", KEY)["builder"] == "docker"


def test_another_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="is no plan of rule"):
        image_map({"rule": "other"})
