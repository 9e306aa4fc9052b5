# From a configuration to what it names: the resolved configuration, the datasets it locks, the plan of what must be built.
# A unit is a run of the recipe, or `eval-<name>` for one of its evaluations.


rule resolve:
    """Resolves a unit's configuration to canonical form."""
    input:
        lambda wildcards: sources(config_path(wildcards.unit)).config,
    output:
        "<results>/{unit}/inputs/config.yaml",
    log:
        "<logs>/resolve/{unit}.log",
    localrule: True
    params:
        platoon=platoon,
        config=lambda wildcards: config_path(wildcards.unit),
    message:
        "resolve {wildcards.unit}"
    shell:
        "exec {params.platoon} resolve {params.config:q} --out {output:q}"
        " --site {resources.platoon_site:q} --log-file {log:q}"


rule lock:
    """Locks the datasets of a unit: contents into the site's cache, their digests into the lock."""
    input:
        lambda wildcards: sources(config_path(wildcards.unit)).data,
        config="<results>/{unit}/inputs/config.yaml",
    output:
        "<results>/{unit}/inputs/datasets.lock.json",
    log:
        "<logs>/lock/{unit}.log",
    resources:
        mem_mb=1000,
        runtime="1h",
    params:
        platoon=platoon,
        base=lambda wildcards: Path(config_path(wildcards.unit)).parent,
    message:
        "lock the datasets of {wildcards.unit}"
    shell:
        "exec {params.platoon} lock {input.config:q} --base {params.base:q} --out {output:q}"
        " --site {resources.platoon_site:q} --log-file {log:q}"


checkpoint plan:
    """Names every image that a unit's tasks need."""
    input:
        config="<results>/{unit}/inputs/config.yaml",
        lock="<results>/{unit}/inputs/datasets.lock.json",
    output:
        "<results>/{unit}/inputs/plan.json",
    log:
        "<logs>/plan/{unit}.log",
    localrule: True
    params:
        platoon=platoon,
    message:
        "plan the images of {wildcards.unit}"
    shell:
        "exec {params.platoon} plan {input.config:q} --datasets {input.lock:q} --out {output:q}"
        " --site {resources.platoon_site:q} --log-file {log:q}"
