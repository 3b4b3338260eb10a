import io
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tertium.data import DataError, check_file, csts, load
from tertium.errors import TertiumError, TertiumWarning
from tertium.files import sha256

from .conftest import Write

SECRET = "made up for this test"
needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(csts.PASSWORD, raising=False)
    return tmp_path / "cache" / "csts"


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"sentence1,sentence2,condition,label\n") -> Member:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    return entry, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry, b""


def splits() -> list[Member]:
    row = "sentence1,sentence2,condition,label\nA,B,{},3\n"
    return [
        member(f"./{name}", row.format(name).encode()) for name in csts.PUBLISHED["C-STS"].members
    ]


@pytest.fixture
def pack(write: Write, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write an encrypted bundle of these members, and set its password."""

    def packed(members: Sequence[Member], name: str = csts.BUNDLE) -> Path:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for entry, content in members:
                archive.addfile(entry, io.BytesIO(content))
        command = ["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-pass", f"pass:{SECRET}"]
        done = subprocess.run(command, input=stream.getvalue(), capture_output=True, check=True)
        monkeypatch.setenv(csts.PASSWORD, SECRET)
        return write(f"data/{name}", done.stdout)

    return packed


@pytest.fixture
def bundle(cache: Path, pack: Callable[..., Path]) -> Path:
    return pack([(directory(), b""), *splits()])


def directory() -> tarfile.TarInfo:
    entry = tarfile.TarInfo("./")
    entry.type = tarfile.DIRTYPE
    return entry


def test_the_users_own_files_come_first(write: Write, cache: Path) -> None:
    own = write("data/csts_test.csv", "sentence1,sentence2,condition,label\n")
    write(f"data/{csts.BUNDLE}", "never opened")
    assert csts.find_file(own.parent, "test") == own
    assert not cache.exists()


def test_without_files_and_bundle_there_is_nothing(tmp_path: Path) -> None:
    assert csts.find_file(tmp_path, "test") is None


@needs_openssl
def test_the_bundle_is_unpacked_into_the_cache_alone(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = csts.find_file(bundle.parent, "validation")
    assert path is not None and "validation" in path.read_text()
    assert path.parent.parent == cache
    assert [entry.name for entry in bundle.parent.iterdir()] == [csts.BUNDLE]
    assert [entry.name for entry in cache.iterdir()] == [path.parent.name]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (cache, path.parent)} == {0o700}
    monkeypatch.delenv(csts.PASSWORD)
    assert csts.find_file(bundle.parent, "test") == path.with_name("csts_test.csv")


@needs_openssl
def test_a_wrong_or_missing_password_leaves_nothing_behind(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(csts.PASSWORD)
    with pytest.raises(TertiumError, match=f"is encrypted. Set {csts.PASSWORD} to its password"):
        csts.find_file(bundle.parent, "test")
    monkeypatch.setenv(csts.PASSWORD, "wrong")
    with pytest.raises(TertiumError, match=f"Check {csts.PASSWORD}"):
        csts.find_file(bundle.parent, "test")
    assert not cache.exists()


@needs_openssl
def test_the_password_may_lie_beside_the_bundle(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(csts.PASSWORD)
    beside = bundle.with_name(csts.PASSWORD_FILE)
    beside.write_bytes(b"\xff\0wrong")
    with pytest.raises(TertiumError, match=f"Check {csts.PASSWORD} or {csts.PASSWORD_FILE}"):
        csts.find_file(bundle.parent, "test")
    beside.write_text(f"{SECRET}\n")
    assert csts.find_file(bundle.parent, "test") is not None


def test_without_openssl_the_message_says_so(
    write: Write, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write(f"data/{csts.BUNDLE}", "x")
    monkeypatch.setenv(csts.PASSWORD, SECRET)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TertiumError, match="needs openssl"):
        csts.find_file(bundle.parent, "test")


@needs_openssl
def test_nothing_in_the_data_folder_is_ever_run(bundle: Path, cache: Path) -> None:
    script = bundle.with_name("extract-csts")
    script.write_text(f"#!/bin/sh\ntouch {bundle.parent}/was-run\n")
    script.chmod(0o755)
    path = csts.find_file(bundle.parent, "train")
    assert path is not None and "csts_train.csv" in path.read_text()
    assert {entry.name for entry in bundle.parent.iterdir()} == {csts.BUNDLE, script.name}


@needs_openssl
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda whole: whole[:-16], r"(could not be decrypted|holds no archive)"),
        (lambda _: b"x" * 64, "could not be decrypted"),
        (lambda _: b"", "could not be decrypted"),
    ],
    ids=["cut short", "not encrypted", "empty"],
)
def test_a_damaged_bundle(
    content: Callable[[bytes], bytes], reason: str, bundle: Path, cache: Path
) -> None:
    bundle.write_bytes(content(bundle.read_bytes()))
    message = rf"{csts.BUNDLE} {reason} .*Check {csts.PASSWORD} .* Get C-STS from"
    with pytest.raises(TertiumError, match=message):
        csts.find_file(bundle.parent, "train")
    assert not cache.exists()


@needs_openssl
@pytest.mark.parametrize(
    ("members", "message"),
    [
        (splits()[:1], "it lacks csts_validation.csv, csts_test.csv"),
        ([*splits(), member("../csts_train.csv")], "it holds '../csts_train.csv'"),
        ([*splits(), member("/tmp/csts_train.csv")], "it holds '.*tmp/csts_train.csv'"),
        ([*splits(), member("extract-csts")], "it holds 'extract-csts'"),
        ([*splits(), member("csts_train.csv")], "it holds 'csts_train.csv'"),  # a second one
        ([link("csts_train.csv", "/etc/passwd")], "it holds 'csts_train.csv'"),
        ([link("csts_train.csv", "/etc/passwd", tarfile.LNKTYPE)], "it holds 'csts_train.csv'"),
        ([link("csts_train.csv", "", tarfile.FIFOTYPE)], "it holds 'csts_train.csv'"),
        ([member("csts_train.csv", bytes(65 << 20))], "it unpacks to more than 64 MB"),
    ],
)
def test_a_bundle_of_anything_else_is_refused(
    members: list[Member],
    message: str,
    pack: Callable[..., Path],
    cache: Path,
) -> None:
    folder = pack(members).parent
    with pytest.raises(TertiumError, match=message):
        csts.find_file(folder, "train")
    assert not cache.exists()
    assert [entry.name for entry in folder.iterdir()] == [csts.BUNDLE]


def test_a_bundle_that_is_far_too_large_is_not_read(tmp_path: Path, cache: Path) -> None:
    with (tmp_path / csts.BUNDLE).open("wb") as stream:
        stream.truncate(65 << 20)
    with pytest.raises(TertiumError, match="larger than 64 MB"):
        csts.find_file(tmp_path, "train")


@needs_openssl
def test_an_unpacking_that_lost_the_race_gives_way(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decrypt = csts._decrypt

    def slow(source: Path, published: csts.Published) -> bytes:
        theirs = cache / sha256(source)
        theirs.mkdir(parents=True)
        (theirs / "csts_train.csv").write_text("theirs")
        return decrypt(source, published)

    monkeypatch.setattr(csts, "_decrypt", slow)
    path = csts.find_file(bundle.parent, "train")
    assert path is not None and path.read_text() == "theirs"
    assert len(list(cache.iterdir())) == 1


@pytest.mark.data
@needs_openssl
def test_the_real_bundle_is_read(data_folder: Path) -> None:
    known = csts.PASSWORD in os.environ or (data_folder / csts.PASSWORD_FILE).is_file()
    if not (data_folder / csts.BUNDLE).is_file() or not known:
        pytest.skip("no bundle, or no password")
    path = csts.find_file(data_folder, "validation")
    assert path is not None and path.read_bytes().startswith(b"sentence1,sentence2,condition,label")


# re-annotations

TRIPLE = "sentence1,sentence2,condition,label\nA dog.,A cat.,{},{}\nA dog.,A cat.,{},{}\n"
UIDS = "uid\treannotated-label\n"


@pytest.fixture
def reannotated(write: Write) -> Path:
    """Two rows of C-STS's validation part, and of both re-annotations."""
    write("data/csts_validation.csv", TRIPLE.format("The size.", 1, "The animal.", 4))
    write("data/csts_validation_reannotated.csv", TRIPLE.format("size", -1, "kind of animal", 2))
    write("data/csts_train_reannotated.csv", TRIPLE.format("size", "3.0", "kind of animal", "1.0"))
    return write("data/csts-val-reannotated.tsv", f"{UIDS}1\t2\n0\t-1\n").parent


def read(folder: Path, name: str, split: str = "validation") -> list[tuple[str, float | None]]:
    loaded = load(name, split=split, folder=folder, check_rows=False)
    return [(row.condition, row.label) for row in loaded.rows]


def quiet(folder: Path, name: str) -> object:
    with pytest.warns(TertiumWarning, match=r"2 rows .* are expected"):
        return read(folder, name)


def test_both_layouts_of_the_reannotations(reannotated: Path) -> None:
    assert quiet(reannotated, "C-STS-relabelled") == [("The size.", None), ("The animal.", 2)]
    assert read(reannotated, "C-STS-revised") == [("size", None), ("kind of animal", 2)]
    assert read(reannotated, "C-STS-revised", "train") == [("size", 3), ("kind of animal", 1)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{UIDS}0\t1\n2\t3\n", r":3: column 'uid': '2': C-STS's .* has rows 0 to 1; get the"),
        (f"{UIDS}0\t1\n-1\t3\n", r":3: column 'uid': '-1': C-STS's .* has rows 0 to 1"),
        (f"{UIDS}0\t1\n0\t3\n", r":3: column 'uid': '0': this row has a label already"),
        (f"{UIDS}0\t1\n", r"tsv: column 'uid': '1': no line for this row, and 1 are missing"),
        (f"{UIDS}0\t1\n1\t6\n", r":3: column 'reannotated-label': '6': write a number from 1"),
        (f"{UIDS}0\t1\none\t3\n", r":3: column 'uid': 'one': write a whole number"),
        (f"{UIDS}0\t1\n1.5\t3\n", r":3: column 'uid': '1.5': write a whole number"),
        ("uid\tsense\n0\t1\n", r":1: column 'label': no such column among: uid, sense"),
        (f"{UIDS}0\t1\n1\t\udcff\n", r":3: '0xff': not UTF-8; save the file as UTF-8"),
        (UIDS, r"csts-val-reannotated.tsv: .*no rows"),
        ("", r"csts-val-reannotated.tsv"),
    ],
)
def test_bad_careful_labels(content: str, message: str, reannotated: Path) -> None:
    (reannotated / "csts-val-reannotated.tsv").write_text(content, errors="surrogateescape")
    with pytest.raises(DataError, match=message), pytest.warns(TertiumWarning):
        read(reannotated, "C-STS-relabelled")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TRIPLE.format("size", 0, "sort", 1), r":2: column 'label': '0': write a number from 1"),
        (TRIPLE.format("size", 3, "", 1), r":3: column 'condition': '': write some text"),
        (TRIPLE.format("size", "x", "sort", 1), r":2: column 'label': 'x': write a number"),
        (TRIPLE.format("size", 3, "\udcff", 1), r":3: '0xff': not UTF-8; save the file as UTF-8"),
        (TRIPLE.replace(",", ";"), r":1: .*: the columns are not separated by commas"),
        ("sentence1,sentence2,label\nA,B,1\n", r":1: column 'condition': no such column"),
    ],
)
def test_bad_revised_rows(content: str, message: str, reannotated: Path) -> None:
    revised = reannotated / "csts_validation_reannotated.csv"
    revised.write_text(content, errors="surrogateescape")
    with pytest.raises(DataError, match=rf"csts_validation_reannotated\.csv{message}"):
        read(reannotated, "C-STS-revised")


def test_where_reannotations_come_from(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match=r"LivNLP/CSTS-reannotation.*csts_train_reannotated"):
        read(tmp_path, "C-STS-revised")
    with pytest.raises(TertiumError, match=r"L-CSTS.*put csts-val-reannotated.tsv, or csts-rea"):
        read(tmp_path, "C-STS-relabelled")


def test_careful_labels_need_the_rows_they_are_for(reannotated: Path) -> None:
    (reannotated / "csts_validation.csv").unlink()
    with pytest.raises(TertiumError, match=r"princeton-nlp/c-sts"):
        read(reannotated, "C-STS-relabelled")


@needs_openssl
def test_the_bundle_of_the_reannotations(
    cache: Path, pack: Callable[..., Path], reannotated: Path
) -> None:
    published = csts.PUBLISHED["C-STS-revised"]
    files = {name: (reannotated / name).read_bytes() for name in published.members}
    for name in files:
        (reannotated / name).unlink()
    pack([member(name, content) for name, content in files.items()], published.bundle)
    assert read(reannotated, "C-STS-revised", "train") == [("size", 3), ("kind of animal", 1)]
    assert quiet(reannotated, "C-STS-relabelled") == [("The size.", None), ("The animal.", 2)]
    assert len(list(cache.iterdir())) == 1
    pack(splits(), published.bundle)
    with pytest.raises(TertiumError, match=r"it holds './csts_train.csv'.*LivNLP"):
        read(reannotated, "C-STS-revised")


def test_the_layouts_are_recognised(reannotated: Path) -> None:
    assert check_file(reannotated / "csts-val-reannotated.tsv").kind == "relabelled"
    assert check_file(reannotated / "csts_train_reannotated.csv").kind == "conditional"
