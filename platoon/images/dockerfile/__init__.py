"""Dockerfiles, planned: what is built, what a session applies itself, and the key a built image is found by.

Assumes a context directory whose files may be read, and nothing of its contents. Guarantees that the same context and text give the
same plan on every machine: no mode but the executable bit of files, no time, no registry answer enters.

    plan = plan_image(Path("task/environment"), (Path("task/environment") / "Dockerfile").read_text())
    plan.key, plan.base, plan.deferred
"""

from platoon.images.dockerfile.errors import DockerfileError
from platoon.images.dockerfile.plan import BUILD_KEY_RULE, ImagePlan, build_key, plan_image

__all__ = ["BUILD_KEY_RULE", "DockerfileError", "ImagePlan", "build_key", "plan_image"]
