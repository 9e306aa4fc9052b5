# From a plan to images a provider can start. The process provider runs tasks on the host itself: its map names the local image.


rule image_map:
    """Writes where each image of a unit's plan is."""
    input:
        plan=lambda wildcards: checkpoints.plan.get(unit=wildcards.unit).output[0],
    output:
        "<results>/{unit}/inputs/image_map.json",
    log:
        "<logs>/image_map/{unit}.log",
    localrule: True
    params:
        platoon=platoon,
    message:
        "map the images of {wildcards.unit}"
    shell:
        "exec {params.platoon} image-map {input.plan:q} --out {output:q}"
        " --site {resources.platoon_site:q} --log-file {log:q}"


rule prepare:
    """Everything that training and evaluating will read, and nothing of either."""
    input:
        collect("<results>/{unit}/inputs/image_map.json", unit=UNITS),
    message:
        "all inputs are there"
