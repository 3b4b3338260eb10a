"""The first and last sections: the models, failures, omissions and provenance."""

from collections.abc import Mapping, Sequence

from tertium.analysis.inspection import efficiency
from tertium.evaluation.report import Provenance
from tertium.report.data import GradedSet
from tertium.report.model_report import ModelReport
from tertium.report.page import Block, Broken, Drawn, LeftOut, Note, Section, Table, prose

__all__ = ["broken_section", "left_out_section", "made_section", "models_section"]


def models_section(reports: Sequence[ModelReport], scores: Mapping[str, float]) -> Section:
    """Properties and cost of the models."""
    rows = []
    for report in reports:
        facts = report.facts
        cost = "" if facts.macs is None else f"{facts.macs / 1e9:.2f}"
        score = scores.get(report.label)
        per = "" if score is None or not facts.macs else f"{efficiency(score, facts.macs):.0f}"
        low, high = facts.scale
        rows.append(
            [
                report.label,
                facts.kind,
                facts.pooling or "",
                "" if facts.dimension is None else str(facts.dimension),
                f"{low:g} to {high:g}",
                str(facts.backbones),
                f"{facts.parameters / 1e6:.1f} M",
                cost,
                per,
            ]
        )
    header = ["model", "kind", "pooling", "width", "scale", "transformers", "parameters"]
    table = Table(
        "The models. GMACs: billions of multiply-accumulates for a text of 32 tokens; the last "
        "column is points of Spearman per GMAC.",
        [*header, "GMACs", "points per GMAC"],
        rows,
        prose=frozenset({1, 2}),
    )
    trained = [
        [report.label, "; ".join(report.facts.training_data)]
        for report in reports
        if report.facts.training_data
    ]
    blocks: list[Block] = [table]
    if trained:
        caption = "Training data on the models' cards."
        blocks.append(Table(caption, ["model", "data"], trained, prose=frozenset({1})))
    numbers = {
        report.label: {
            "backbones": report.facts.backbones,
            "parameters": report.facts.parameters,
            "macs": report.facts.macs,
        }
        for report in reports
    }
    return Section.of("models", tuple(blocks), numbers)


def broken_section(broken: Sequence[Broken]) -> Section | None:
    """Failures, with their error messages."""
    if not broken:
        return None
    rows = [[entry.model, entry.while_doing, entry.error] for entry in broken]
    table = Table("Failures.", ["model", "while", "error"], rows, prose=frozenset({1, 2}))
    return Section.of("broken", (table,))


def left_out_section(left_out: Sequence[LeftOut]) -> Section | None:
    """What is not on the page, and why."""
    if not left_out:
        return None
    sections = prose()["sections"]
    rows = [
        [
            sections.get(entry.section, {}).get("title", entry.section),
            entry.model or "all",
            entry.reason,
        ]
        for entry in left_out
    ]
    table = Table("Left out.", ["section", "model", "reason"], rows, prose=frozenset({1, 2}))
    return Section.of("left-out", (table,))


def made_section(
    reports: Sequence[ModelReport],
    sets: Sequence[GradedSet],
    drawn: Sequence[Drawn],
    provenance: Provenance,
    *,
    texts: str,
) -> Section:
    """Provenance of every figure: command, versions, hashes and times."""
    versions = ", ".join(f"{name} {number}" for name, number in provenance.versions.items())
    rows = [
        ["command", provenance.command],
        ["date", provenance.date],
        ["machine", provenance.machine],
        ["versions", f"Python {provenance.python}, {versions}"],
        ["seed", str(provenance.seed)],
        ["wall time", f"{provenance.seconds:.0f} s"],
        ["texts for attention", texts],
    ]
    blocks: list[Block] = [
        Table("The run.", ["what", "is"], rows, prose=frozenset({1})),
        Table(
            "The models.",
            ["model", "loaded from", "seconds", "sha256 of the model"],
            [[s.label, s.name, f"{s.seconds:.1f}", s.facts.sha256] for s in reports],
            prose=frozenset({1, 3}),
        ),
    ]
    if sets:
        blocks.append(
            Table(
                "The data.",
                ["set", "file", "pairs", "of", "sha256", "terms"],
                [
                    [
                        f"{one.name} {one.split or ''}".strip(),
                        one.source,
                        f"{len(one.gold):,}",
                        f"{one.whole:,}",
                        one.sha256 or "",
                        one.licence or "your own",
                    ]
                    for one in sets
                ],
                prose=frozenset({1, 4, 5}),
            )
        )
    blocks.append(
        Table(
            "The figures: each is beside this page as figures/NAME.png and figures/NAME.svg.",
            ["figure", "function of tertium.analysis", "counterpart of"],
            [[entry.name, entry.function, entry.paper] for entry in drawn],
            prose=frozenset({1, 2}),
            folded=True,
        )
    )
    blocks.append(Note("The numbers behind every figure are in report.json beside this page."))
    return Section.of("made", tuple(blocks))
