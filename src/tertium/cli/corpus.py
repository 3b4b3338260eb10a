"""``tertium mine``, ``dedupe`` and ``cluster``: similar texts in a large file."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.output import count, show, table, verdict_cells
from tertium.errors import TertiumError

__all__ = ["cluster", "dedupe", "mine"]

_SHOWN = 10  # clusters
_MANY = 0.3  # share of texts whose removal is worth a warning
_OUTLIERS = 100


@options.grouped
def mine(
    output: options.TableFile,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Minimum cosine of a pair (default: that of the model, see fit; else 0.8).",
            callback=checks.threshold,
        ),
    ] = None,
    top_k: Annotated[
        int,
        typer.Option(min=1, help="Consider only the N nearest neighbours of each text."),
    ] = 10,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Keep only the best N pairs (default: all).")
    ] = None,
    model: options.Model = "default",
    engine: options.Engine = "default",
    method: options.Method = "auto",
    spreadsheet_safe: options.SafeCells = True,
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Find the most similar pairs of texts, and write them, best first.

    Example: tertium mine sentences.txt -o pairs.tsv --threshold 0.85
    """
    from tertium.corpus.inputs import TABLES
    from tertium.corpus.inputs import table as write_table
    from tertium.files import check_ending, check_outputs

    check_ending(output, TABLES)
    check_outputs(corpus.texts, output)
    least, decision = options.fitted_threshold(threshold, model=model, engine=engine, usual=0.8)
    texts, ids = corpus.read()
    source = corpus.source(texts, model=model, engine=engine)
    from tertium.corpus import mine as find
    from tertium.records.decision import VERDICT

    found = find(texts, source, threshold=least, top_k=top_k, limit=limit, method=method)
    added = () if decision is None else VERDICT
    columns = ("sentence1", "sentence2", "similarity", "id1", "id2", *added)
    with write_table(output, columns, spreadsheet_safe=spreadsheet_safe) as write:
        for first, second, score in found:
            said = verdict_cells(decision, score)
            write((texts[first], texts[second], score, ids[first], ids[second], *said))
    document = {
        "output": str(output),
        "texts": len(texts),
        "repeats": found.repeats,
        "pairs": len(found),
        "threshold": least,
        "decision": None if decision is None else decision.to_json("cosine"),
        "top_k": top_k,
        "method": found.method,
    }
    repeats = f", {found.repeats:,} of them repeated" if found.repeats else ""
    message = f"{output}: {count(len(found), 'pair')} from {count(len(texts), 'text')}{repeats}"
    show(document, as_json=as_json, notes=message)


@options.grouped
def dedupe(
    output: Annotated[
        Path | None,
        typer.Option(
            *("--output", "-o"),
            help="File for the texts that are kept: .txt, or .tsv, .csv, .jsonl with all columns.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="File for the texts that are removed, with the kept text and the cosine: "
            ".tsv, .csv or .jsonl."
        ),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(help="File for whole groups with their representative: .tsv, .csv or .jsonl."),
    ] = None,
    outliers: Annotated[
        Path | None,
        typer.Option(help="File for the texts that are least like any other, at most 100."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Minimum cosine for near-duplicates (default: that of the model, see fit; else "
            "0.9).",
            callback=checks.threshold,
        ),
    ] = None,
    to: Annotated[
        int | None,
        typer.Option(
            min=1, help="Keep N texts instead: of the most similar pairs, the later goes."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Remove what is near a text of this file instead, as training texts that are in "
            "a test set.",
            callback=checks.file,
        ),
    ] = None,
    keep_different: Annotated[
        str | None,
        typer.Option(
            help="Regular expression: texts that differ in what it finds are not duplicates."
        ),
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            help="File of compared pairs (.npz): written if it does not exist, else read instead "
            "of comparing again, for any threshold from --floor on.",
        ),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            help="Minimum cosine of pairs in a new file of candidates (default: the threshold).",
            callback=checks.threshold,
        ),
    ] = None,
    exact_only: Annotated[
        bool,
        typer.Option(
            "--exact-only", help="Remove only texts that are identical except for white space."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed; write no texts.")
    ] = False,
    model: options.Model = "default",
    engine: options.Engine = "default",
    method: Annotated[
        str,
        typer.Option(
            help="exact, hnsw, minhash (encode and compare only texts that share many characters), "
            "or auto: exact up to 1,000,000 texts.",
            callback=checks.method,
        ),
    ] = "auto",
    spreadsheet_safe: options.SafeCells = True,
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Remove every text that is a near-duplicate of an earlier one; the order is kept.

    Example: tertium dedupe sentences.txt -o clean.txt --report dropped.tsv
    """
    from tertium.corpus.inputs import TABLES, read_corpus, write_kept
    from tertium.corpus.inputs import table as write_table
    from tertium.files import check_ending, check_outputs

    if output is None and not dry_run:
        raise TertiumError("Name a file for the texts that are kept: --output FILE, or --dry-run.")
    other = [
        name
        for name, given in (("--to", to), ("--against", against), ("--candidates", candidates))
        if given is not None
    ]
    if len(other) > 1 or (other and exact_only and against is None):
        named = " and ".join([*other, *["--exact-only"] * exact_only])
        raise TertiumError(f"{named} exclude each other.")
    if candidates is not None and keep_different is not None:
        raise TertiumError("--candidates and --keep-different exclude each other.")
    if output is not None:
        check_ending(output, (".txt", *TABLES))
    for extra in (report, groups, outliers):
        if extra is not None:
            check_ending(extra, TABLES)
    if candidates is not None:
        check_ending(candidates, (".npz",))
    for source_file in (corpus.texts, against):
        check_outputs(source_file, output, report, groups, outliers, candidates)
    least, decision = 0.9, None
    if not exact_only:
        least, decision = options.fitted_threshold(threshold, model=model, engine=engine, usual=0.9)
    texts, ids = corpus.read()
    known = candidates is not None and candidates.exists()
    needed = not exact_only and not (known and outliers is None)
    source = corpus.source(texts, model=model, engine=engine) if needed else None
    from tertium.corpus import Deduped, find_candidates, read_candidates
    from tertium.corpus import dedupe as find
    from tertium.corpus import outliers as find_outliers

    kept_texts, kept_ids = texts, ids
    found: Deduped
    if candidates is not None:
        if not known:
            assert source is not None
            lowest = least if floor is None else floor
            find_candidates(texts, source, floor=lowest).save(candidates)
        found = read_candidates(candidates).dedupe(texts, threshold=least)
    else:
        beside: dict[str, Any] = {"keep_different": keep_different, "to": to}
        if against is not None:
            kept_texts, kept_ids = read_corpus(against, column=None)
            if corpus.vectors is not None:
                raise TertiumError("--against encodes both files: leave --vectors out.")
            beside["against"] = kept_texts
        found = find(texts, source, threshold=least, method=method, **beside)
    if report is not None:
        from tertium.records.decision import VERDICT

        added = () if decision is None else VERDICT
        columns = ("id", "text", "reason", "kept_id", "kept_text", "similarity", *added)
        with write_table(report, columns, spreadsheet_safe=spreadsheet_safe) as write:
            for gone in found.dropped:
                kept = (kept_ids[gone.kept], kept_texts[gone.kept])
                said = verdict_cells(decision, gone.score)
                write((ids[gone.row], texts[gone.row], str(gone.reason), *kept, gone.score, *said))
    if groups is not None:
        columns = ("group", "role", "id", "text", "similarity")
        with write_table(groups, columns, spreadsheet_safe=spreadsheet_safe) as write:
            for number, (first, members) in enumerate(found.groups(), 1):
                write((number, "representative", kept_ids[first], kept_texts[first], 1.0))
                for gone in members:
                    write((number, "member", ids[gone.row], texts[gone.row], gone.score))
    if outliers is not None:
        if source is None:
            raise TertiumError("--outliers compares texts, which --exact-only does not.")
        columns = ("id", "text", "nearest_id", "nearest_text", "similarity")
        with write_table(outliers, columns, spreadsheet_safe=spreadsheet_safe) as write:
            for row, near, score in find_outliers(texts, source, limit=_OUTLIERS):
                write((ids[row], texts[row], ids[near], texts[near], score))
    if output is not None and not dry_run:
        write_kept(corpus.texts, output, found.kept, column=corpus.column)
    reasons = Counter(str(gone.reason) for gone in found.dropped)
    document = {
        "output": None if output is None or dry_run else str(output),
        "report": None if report is None else str(report),
        "texts": len(texts),
        "kept": len(found.kept),
        "dropped": {"same": reasons["same"], "near": reasons["near"]},
        "share": round(found.share, 4),
        "groups": len(found.groups()),
        "threshold": None if exact_only else found.threshold,
        "decision": None if decision is None else decision.to_json("cosine"),
        "method": found.method,
    }
    verb = "would remove" if dry_run else "removed"
    removed = f"{verb} {reasons['same']:,} exact and {reasons['near']:,} near duplicates"
    place = corpus.texts if output is None or dry_run else output
    of = count(len(texts), "text")
    notes = [f"{place}: {'keeps' if dry_run else 'kept'} {len(found.kept):,} of {of}; {removed}"]
    if to is not None and found.threshold is not None:
        notes.append(f"what was removed has a cosine of {found.threshold:.3f} or more")
    if found.share > _MANY:
        notes.append(
            f"note: that is {found.share:.0%} of the texts. If they share a form and differ in "
            "what counts, raise --threshold, or name what must not differ with --keep-different."
        )
    show(document, as_json=as_json, notes=notes)


@options.grouped
def cluster(
    output: options.TableFile,
    threshold: Annotated[
        float,
        typer.Option(
            help="Minimum cosine with the most typical text of a cluster.",
            callback=checks.threshold,
        ),
    ] = 0.75,
    min_size: Annotated[int, typer.Option(min=1, help="Minimum number of texts in a cluster.")] = 3,
    k: Annotated[
        int | None,
        typer.Option(
            min=1, help="Make N clusters by k-means instead, with every text in one of them."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for k-means.")] = 0,
    model: options.Model = "default",
    engine: options.Engine = "default",
    spreadsheet_safe: options.SafeCells = True,
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Group texts: clusters around a typical text, or as many clusters as you ask for.

    Other columns of a table are kept.

    Example: tertium cluster sentences.txt -o clusters.tsv --threshold 0.7
    """
    from tertium.corpus.inputs import TABLES
    from tertium.corpus.inputs import table as write_table
    from tertium.files import check_ending, check_outputs

    check_ending(output, TABLES)
    check_outputs(corpus.texts, output)
    texts, ids = corpus.read()
    source = corpus.source(texts, model=model, engine=engine)
    from tertium.corpus import cluster as find
    from tertium.corpus import name_clusters
    from tertium.corpus.inputs import iter_columns

    found = find(texts, source, threshold=threshold, min_size=min_size, k=k, seed=seed)
    names = [", ".join(words) for words in name_clusters(texts, found.clusters)]
    ours = ("cluster", "id", "text", "similarity", "name")
    kept = list(iter_columns(corpus.texts, column=corpus.column, id_column=corpus.id_column))
    further = list(dict.fromkeys(name for row in kept for name in row))
    columns = (*ours, *(f"input_{name}" if name in ours else name for name in further))
    with write_table(output, columns, spreadsheet_safe=spreadsheet_safe) as write:
        rows: list[tuple[int, tuple[int, str | None], float | None]] = [
            (row, (number, names[number - 1]), score)
            for number, group in enumerate(found.clusters, 1)
            for row, score in zip(group.rows, group.scores, strict=True)
        ]
        rows += [(row, (0, None), None) for row in found.alone]
        for row, (number, name), score in rows:
            values = [kept[row].get(column) for column in further]
            write((number, ids[row], texts[row], score, name, *values))
    clusters = [
        {
            "cluster": number,
            "name": names[number - 1],
            "size": len(group.rows),
            "centre": {"id": ids[group.centre], "text": texts[group.centre]},
        }
        for number, group in enumerate(found.clusters, 1)
    ]
    document = {
        "output": str(output),
        "texts": len(texts),
        "alone": len(found.alone),
        "clusters": clusters,
    }
    largest = enumerate(found.clusters[:_SHOWN], 1)
    shown = [
        (str(number), f"{len(group.rows):,}", names[number - 1], texts[group.centre])
        for number, group in largest
    ]
    lines = [table(("", "texts", "words", "most typical text"), shown)] if shown else []
    more = len(found.clusters) - _SHOWN
    inside = f"{len(texts) - len(found.alone):,} of {count(len(texts), 'text')}"
    show(
        document,
        *lines,
        *([f"and {more:,} more"] if more > 0 else []),
        as_json=as_json,
        notes=f"{output}: {inside} in {count(len(found.clusters), 'cluster')}",
    )
