# From inputs to trained policies and evaluations of them. Run directories belong to the trainer and are no outputs: Snakemake
# deletes outputs before a rerun. A receipt is written last, and only by a command that reached its end.


rule train_run:
    """Trains a run until its receipt exists; goes on from what its run directory holds."""
    input:
        config="<results>/{run}/inputs/config.yaml",
        lock="<results>/{run}/inputs/datasets.lock.json",
        images="<results>/{run}/inputs/image_map.json",
        parent=branch(
            lambda wildcards: parent_of(wildcards.run) is not None,
            then=lambda wildcards: f"<results>/{parent_of(wildcards.run)}/train.json",
        ),
    output:
        "<results>/{run}/train.json",
    log:
        "<logs>/train/{run}.log",
    threads: 2
    resources:
        mem_mb=8000,
        runtime="12h",
    params:
        platoon=platoon,
        requeue=requeue,
        source=lambda wildcards: config_path(wildcards.run),
        inputs=subpath(input.config, parent=True),
        parent=lambda wildcards, input: (
            f"--from {shlex.quote(str(input.parent))}" if input.get("parent") else ""
        ),
    message:
        "train {wildcards.run}"
    shell:
        "exec {params.platoon} train {params.source:q} --inputs {params.inputs:q} {params.parent}"
        " --run {wildcards.run:q} --receipt {output:q} --time-budget {resources.runtime}m"
        " {params.requeue} --site {resources.platoon_site:q} --log-file {log:q}"


rule evaluate:
    """Evaluates a run's last checkpoint; rollouts that are done already are kept."""
    input:
        config="<results>/eval-{evaluation}/inputs/config.yaml",
        lock="<results>/eval-{evaluation}/inputs/datasets.lock.json",
        images="<results>/eval-{evaluation}/inputs/image_map.json",
        trained="<results>/{run}/train.json",
    output:
        "<results>/{run}/eval-{evaluation}.json",
    log:
        "<logs>/eval/{run}-{evaluation}.log",
    threads: 2
    resources:
        mem_mb=8000,
        runtime="2h",
    params:
        platoon=platoon,
        requeue=requeue,
        source=lambda wildcards: config_path(f"eval-{wildcards.evaluation}"),
        inputs=subpath(input.config, parent=True),
    message:
        "evaluate {wildcards.run}: {wildcards.evaluation}"
    shell:
        "exec {params.platoon} eval {params.source:q} --inputs {params.inputs:q} --of {input.trained:q}"
        " --name {wildcards.evaluation:q} --receipt {output:q} --time-budget {resources.runtime}m"
        " {params.requeue} --site {resources.platoon_site:q} --log-file {log:q}"


rule train_all:
    """The receipts of all runs."""
    input:
        collect("<results>/{run}/train.json", run=RECIPE.runs),
    message:
        "all runs are trained"


rule eval:
    """The receipts of all evaluations, and of the runs they evaluate."""
    input:
        [
            f"<results>/{item.of}/eval-{name}.json"
            for name, item in RECIPE.evaluations.items()
        ],
    message:
        "all evaluations are there"
