"""One self-contained page of HTML from results: figures to look at, numbers, how to rerun.

    results      what a file or folder holds: a model, a document of --json, a reproduced figure
    judgement    a model on rows with known labels: classes, pairs, calibration, mistakes
    section      what a result is turned into; fits, experiments, reproductions make them
    scales, charts, bars, tables, elements     how it is drawn: SVG and HTML
    page         all sections in one file, with page.css and page.js

Charts are drawn here, not by a library in the page: plotly.min.js alone has 4.5 MB, which a browser
parses before its first paint, and it draws nothing without scripts.  Here a chart is drawn once for
each position of its switches, CSS shows one of them, and the script only adds hovering, sorting,
searching and copying.
"""
