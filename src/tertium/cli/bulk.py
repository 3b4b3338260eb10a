"""``tertium encode`` and ``tertium score``: files of texts or pairs to a file or a folder."""

import os
from dataclasses import dataclass, fields
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.output import count, interruptible, note, show
from tertium.errors import TertiumError

if TYPE_CHECKING:
    from tertium.jobs import Finished

__all__ = ["encode", "score"]


@dataclass(frozen=True)
class FolderOptions:
    """Options that apply only to an output folder; None if not given."""

    jobs: Annotated[
        int | None,
        typer.Option(
            help="For a folder: worker processes (default: one per processor, at most 8)."
        ),
    ] = None
    threads: Annotated[
        int | None, typer.Option(help="For a folder: threads of each worker (default: 1).")
    ] = None
    shard_rows: Annotated[
        int | None,
        typer.Option(help="For a folder: rows per file (default: by the number of rows)."),
    ] = None
    on_error: Annotated[
        str | None,
        typer.Option(help="For a folder: on a bad row, fail or skip-and-log (default: fail)."),
    ] = None
    engine_cluster: Annotated[
        str | None, typer.Option(help="For a folder: ray, to run on a cluster.")
    ] = None
    ray_address: Annotated[
        str | None,
        typer.Option(help="Address of a running Ray cluster (default: one is started here)."),
    ] = None

    def refuse(self) -> None:
        """Raise if one was given although the output is a single file."""
        for field in fields(self):
            if getattr(self, field.name) is not None:
                option = "--" + field.name.replace("_", "-")
                raise TertiumError(f"{option} is for an output folder, such as -o vectors/.")

    def arguments(self) -> dict[str, Any]:
        """Arguments of ``encode_file`` and ``score_file``."""
        from tertium.jobs import Execution

        execution = Execution(
            workers=self.jobs,
            threads=1 if self.threads is None else self.threads,
            cluster=self.engine_cluster,
            address=self.ray_address,
        )
        given = {"on_error": self.on_error, "shard_rows": self.shard_rows}
        return {"execution": execution, **{name: x for name, x in given.items() if x is not None}}


@options.grouped
def encode(
    texts: options.Texts,
    output: Annotated[
        str,
        typer.Option(
            *("--output", "-o"),
            help="Where to write: .npy, .parquet, or a folder of shards (DIR/).",
        ),
    ],
    model: options.Model = "default",
    column: options.Column = None,
    strip_html: options.StripHtml = False,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Scale vectors to length 1.")
    ] = False,
    dtype: Annotated[
        str | None, typer.Option(help="For a folder: float32 or float16 (default: float32).")
    ] = None,
    truncate_dim: options.TruncateDim = None,
    engine: options.Engine = "default",
    *,
    shards: FolderOptions,
    as_json: options.Json = False,
) -> None:
    """Encode texts into vectors, in constant memory; row i of the output is text i.

    A .parquet file keeps the other columns of a table. A folder is filled by several processes;
    after an interruption the same command resumes.

    Example: tertium encode sentences.txt -o vectors.npy
    """
    if _is_folder(output):
        from tertium.jobs import encode_file

        chosen: dict[str, Any] = {"model": model, "column": column, "engine": engine}
        chosen["strip_html"] = strip_html
        chosen |= {} if dtype is None else {"dtype": dtype}
        chosen |= {} if truncate_dim is None else {"truncate_dim": truncate_dim}
        with interruptible("finished shards"):
            finished = encode_file(
                texts, output, normalize=normalize, **shards.arguments(), **chosen
            )
        width = finished.about["dimension"]
        _show_folder(finished, {"dimension": width}, f"vectors of width {width}", as_json=as_json)
        return
    shards.refuse()
    if dtype is not None:
        raise TertiumError("--dtype is for an output folder, such as -o vectors/.")
    from tertium.data.readers import iter_texts, kept_columns
    from tertium.data.tables import VECTORS, check_format
    from tertium.files import check_outputs

    check_format(Path(output), VECTORS, what="vectors")
    check_outputs(texts, Path(output))
    from tertium.engines.loading import load_embedder
    from tertium.jobs.writers import write_vectors

    encoder = load_embedder(model, engine=engine, truncate_dim=truncate_dim)
    rows = write_vectors(
        encoder,
        lambda: iter_texts(texts, column=column, strip_html=strip_html),
        Path(output),
        normalize=normalize,
        kept=lambda: kept_columns(texts, column=column),
    )
    show(
        {"output": output, "rows": rows, "dimension": encoder.dimension},
        as_json=as_json,
        notes=f"{output}: {rows:,} vectors of width {encoder.dimension}",
    )


@options.grouped
def score(
    pairs: Annotated[
        Path,
        typer.Argument(
            help="TSV, CSV, JSONL or Parquet with sentence1, sentence2 and optionally condition.",
            callback=checks.file,
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            *("--output", "-o"),
            help="Where to write: .tsv, .csv, .jsonl, .parquet, or a folder of shards (DIR/).",
        ),
    ],
    model: options.Scorer = None,
    engine: options.Engine = "default",
    spreadsheet_safe: options.SafeCells = False,
    *,
    named: options.PairColumns,
    shards: FolderOptions,
    as_json: options.Json = False,
) -> None:
    """Score every pair of a file, in constant memory; the output has the input's order.

    A file keeps the other columns of the input; a folder has the line of each pair, and is filled
    by several processes; after an interruption the same command resumes.

    Example: tertium score my_pairs.tsv -o scored.tsv
    """
    from tertium.data.readers import detect_kind, iter_kept
    from tertium.data.rows import Question, SentencePair

    columns = named.read()
    conditional = detect_kind(pairs, columns=columns) == "conditional"
    if _is_folder(output):
        from tertium.jobs import score_file
        from tertium.models.names import takes_conditions

        name = model or ("conditional" if conditional else "sts")
        if conditional and not takes_conditions(name):
            note(_IGNORED.format(name))
        with interruptible("finished shards"):
            finished = score_file(
                pairs, output, model=name, engine=engine, columns=columns, **shards.arguments()
            )
        low, high = finished.about["scale"]
        shown = f"scores on {low:g}..{high:g} by {name}"
        document: dict[str, Any] = {"scale": [low, high], "model": name}
        decision = finished.about.get("decision")
        if decision is not None:
            from tertium.models.names import decision_of

            document["decision"] = decision
            fitted = decision_of(name)
            if fitted is not None:
                note(f"{fitted.name}: {fitted.reason()}")
        _show_folder(finished, document, shown, as_json=as_json)
        return
    shards.refuse()
    from tertium.data.tables import SCORES, check_format
    from tertium.files import check_outputs

    check_format(Path(output), SCORES, what="scores")
    check_outputs(pairs, Path(output))
    import tertium
    from tertium.jobs.writers import write_scores

    scorer = tertium.load(model or ("conditional" if conditional else "sts"), engine=engine)
    if conditional and not scorer.takes_conditions:
        note(_IGNORED.format(scorer.name))
    read, again = tee(
        iter_kept(pairs, Question if scorer.takes_conditions else SentencePair, columns=columns)
    )
    rows = write_scores(
        scorer,
        (tuple(row.model_dump().values()) for row, _ in read),
        Path(output),
        spreadsheet_safe=spreadsheet_safe,
        kept=(kept for _, kept in again),
    )
    low, high = scorer.scale
    document = {"output": output, "rows": rows, "scale": [low, high]}
    document["model"] = scorer.name
    notes = [f"{output}: {rows:,} scores on {low:g}..{high:g} by {scorer.name}"]
    if scorer.decision is not None:
        document["decision"] = scorer.decision.to_json()
        notes.append(f"{scorer.decision.name}: {scorer.decision.reason()}")
    show(document, as_json=as_json, notes=notes)


_IGNORED = "note: {} does not take conditions; the column is ignored."


def _is_folder(output: str) -> bool:
    """Whether the output is a folder of shards: its name ends with a slash or has no extension."""
    return output.endswith(("/", os.sep)) or not Path(output).suffix


def _show_folder(finished: "Finished", result: dict[str, Any], what: str, *, as_json: bool) -> None:
    document = {"output": str(finished.folder), "rows": finished.rows, **result}
    document |= {"shards": finished.shards, "made": finished.made, "skipped": finished.skipped}
    parts = [f"{finished.folder}: {finished.rows:,} {what} in {count(finished.shards, 'shard')}"]
    if finished.shards > finished.made:
        parts.append(f"{finished.shards - finished.made:,} of them existed already")
    if finished.skipped:
        log = finished.folder / "_skipped.jsonl"
        parts.append(f"{count(finished.skipped, 'bad row')} skipped, see {log}")
    show(document, as_json=as_json, notes="; ".join(parts))
