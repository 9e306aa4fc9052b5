# From receipts to what people read, and the proof that the inputs can be made again.


rule summary:
    """The headline figures by run and evaluation."""
    input:
        rules.train_all.input,
        rules.eval.input,
    output:
        report("<results>/summary.json", category="summary"),
    log:
        "<logs>/summary.log",
    localrule: True
    params:
        platoon=platoon,
    message:
        "write {output}"
    shell:
        "exec {params.platoon} summary {input:q} --out {output:q} --log-file {log:q}"


rule write_report:
    """One self-contained page: curves, evaluation bars, staleness, step times, tokens, a trajectory."""
    input:
        rules.summary.input,
    output:
        page=report("<results>/report.html", category="report"),
        figures=report(
            collect("<results>/figures/{figure}.svg", figure=FIGURES),
            category="figures",
        ),
    log:
        "<logs>/report.log",
    localrule: True
    params:
        platoon=platoon,
        figures=lambda wildcards, output: Path(output.figures[0]).parent,
        recipe=config["recipe"],
    message:
        "write {output.page}"
    shell:
        "exec {params.platoon} report {input:q} --out {output.page:q} --figures {params.figures:q}"
        " --recipe {params.recipe:q} --log-file {log:q}"


rule report:
    """The figures for programs and the page for people."""
    input:
        "<results>/summary.json",
        "<results>/report.html",
    message:
        "the report is there"


rule rebuild:
    """Makes the inputs of every unit again in an empty place and compares the bytes; never up to date, by purpose."""
    input:
        rules.prepare.input,
    log:
        "<logs>/rebuild.log",
    localrule: True
    params:
        platoon=platoon,
        recipe=config["recipe"],
        results=lambda wildcards, input: Path(input[0]).parents[2],
    message:
        "make the inputs again and compare them"
    shell:
        "exec {params.platoon} verify --recipe {params.recipe:q} --results {params.results:q}"
        " --site {resources.platoon_site:q} --log-file {log:q}"
