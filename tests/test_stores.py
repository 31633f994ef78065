"""Stores: rows of every format equal the array that was written, however they are asked for."""

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from slender import CompressedMatrix, RowStore, open_rows
from slender.rows import as_rows, chunked, shuffling
from slender.stores import parquet as of_parquet
from slender.stores.finding import as_listed, natural
from test_files import bfloat16_file

N, D = 37, 6
rng = np.random.default_rng(0)
X = (rng.integers(-40, 40, (N, D)) / 4).astype(np.float32)  # exact in float16 and bfloat16
Y = rng.integers(0, 3, N)
CUTS = [0, 11, 11, 30, N]  # of shards, one of them empty


def pieces():
    return [(k, X[lo:hi], Y[lo:hi]) for k, (lo, hi) in enumerate(pairwise(CUTS))]


def in_files(write, suffix):
    """A writer of shards, from one of a file."""

    def written(folder):
        for k, rows, labels in pieces():
            if len(rows):
                write(folder / f"part-{k + 8}{suffix}", rows, labels)  # 8, 10, 11
        return folder, {}

    return written


def npy(folder):
    for k, rows, _ in pieces():
        if len(rows):
            np.save(folder / f"part-{k + 8}.npy", rows)
    np.save(folder.parent / "y.npy", Y)
    return folder, {"labels": folder.parent / "y.npy"}


def torch_file(path, rows, labels):
    torch = pytest.importorskip("torch")
    torch.save({"features": torch.from_numpy(rows.copy()), "y": torch.from_numpy(labels)}, path)


def torch_bfloat16(path, rows, labels):
    torch = pytest.importorskip("torch")
    half = torch.from_numpy(rows.copy()).to(torch.bfloat16)
    torch.save({"X": half, "y": torch.from_numpy(labels)}, path)


def bfloat16(folder):
    for k, rows, _ in pieces():
        if len(rows):
            bfloat16_file(folder / f"part-{k + 8}.safetensors", rows)
    return folder, {"labels": Y}


def hdf5(chunks):
    def write(path, rows, labels):
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("group/embeddings", data=rows, chunks=chunks)
            file.create_dataset("group/ids", data=labels + 7)
            file.create_dataset("names", data=[f"class {c}" for c in labels])

    def written(folder):
        folder, _ = in_files(write, ".h5")(folder)
        return folder, {"key": "group/embeddings", "label": "group/ids"}

    return written


def zarr(version, **how):
    def written(folder):
        zarr = pytest.importorskip("zarr")
        for k, rows, labels in pieces():
            if len(rows):
                group = zarr.open_group(folder / f"part-{k + 8}", mode="w", zarr_format=version)
                for name, array in (("X", rows), ("y", labels)):
                    shape = (4, D) if array.ndim == 2 else (4,)
                    made = group.create_array(
                        name,
                        shape=array.shape,
                        dtype=array.dtype,
                        chunks=shape,
                        **(how if array.ndim == 2 else {}),
                    )
                    made[...] = array
        return folder, {}

    return written


def table(rows, labels, kind):
    pa = pytest.importorskip("pyarrow")
    flat = pa.array(rows.ravel())
    columns = {"id": pa.array([f"#{i}" for i in range(len(rows))])}
    if kind == "fixed":
        columns["emb"] = pa.FixedSizeListArray.from_arrays(flat, D)
    elif kind == "lists":
        offsets = pa.array(np.arange(0, rows.size + 1, D), pa.int32())
        columns["emb"] = pa.ListArray.from_arrays(offsets, flat)
    elif kind == "nested":
        columns["emb"] = pa.array(
            [row.reshape(2, 3).tolist() for row in rows], pa.list_(pa.list_(pa.float32()))
        )
    elif kind == "tensor":
        kind = pa.fixed_shape_tensor(pa.float32(), (2, 3))
        storage = pa.FixedSizeListArray.from_arrays(flat, D)
        columns["emb"] = pa.ExtensionArray.from_storage(kind, storage)
    else:
        del columns["id"]
        columns |= {f"f{j}": pa.array(rows[:, j]) for j in range(D)}
    columns["label"] = pa.array(labels)
    return pa.table(columns)


def parquet(kind):
    def write(path, rows, labels):
        made = table(rows, labels, kind)
        import pyarrow.parquet as pq

        pq.write_table(made, path, row_group_size=5)

    return in_files(write, ".parquet")


def feather(kind, compression):
    def write(path, rows, labels):
        made = table(rows, labels, kind)
        import pyarrow.feather as pf

        pf.write_feather(made, path, compression=compression, chunksize=5)

    return in_files(write, ".feather")


def dataset_folder(folder, splits=False):
    """As `save_to_disk` of Hugging Face datasets writes it."""
    pa = pytest.importorskip("pyarrow")
    inner = folder / "train" if splits else folder
    inner.mkdir(exist_ok=True)
    names = []
    for k, rows, labels in pieces():
        made = table(rows, labels, "lists")
        names.append(f"data-{k:05}-of-00004.arrow")
        with pa.ipc.new_stream(inner / names[-1], made.schema) as stream:
            stream.write_table(made, max_chunksize=4)
    state = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (inner / "state.json").write_text(json.dumps(state))
    (inner / "dataset_info.json").write_text("{}")
    if splits:
        (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
        return folder, {"split": "train"}
    return folder, {}


def codes(folder):
    """X as codes, exactly: its own rows are the centroids."""
    codebooks = np.zeros((1, 256, D), np.float32)
    codebooks[0, :N] = X
    for k, rows, _ in pieces():
        if len(rows):
            numbers = np.arange(CUTS[k], CUTS[k + 1], dtype=np.uint8)[:, None]
            CompressedMatrix(numbers, codebooks).save(folder / f"part-{k + 8}.pq")
    return folder, {"labels": Y}


def dask_array(folder):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(5, 4)), {"labels": da.from_array(Y, chunks=7)}


def arrays(save):
    return lambda path, rows, labels: save(path, X=rows, y=labels)


FORMATS = {
    "npy": npy,
    "npz": in_files(arrays(np.savez), ".npz"),
    "npz compressed": in_files(arrays(np.savez_compressed), ".npz"),
    "npz fortran": in_files(
        lambda path, rows, labels: np.savez(path, X=np.asfortranarray(rows), y=labels), ".npz"
    ),
    "safetensors": in_files(
        lambda path, rows, labels: save_file({"X": rows.copy(), "y": labels.copy()}, path),
        ".safetensors",
    ),
    "bfloat16": bfloat16,
    "pt": in_files(torch_file, ".pt"),
    "pt bfloat16": in_files(torch_bfloat16, ".pt"),
    "hdf5": hdf5((4, 2)),
    "hdf5 contiguous": hdf5(None),
    "zarr 2": zarr(2),
    "zarr 3": zarr(3),
    "zarr 3 shards": zarr(3, shards=(8, D)),
    "parquet fixed": parquet("fixed"),
    "parquet lists": parquet("lists"),
    "parquet nested": parquet("nested"),
    "parquet tensor": parquet("tensor"),
    "parquet columns": parquet("columns"),
    "feather": feather("fixed", "uncompressed"),
    "feather compressed": feather("lists", "lz4"),
    "feather columns": feather("columns", "zstd"),
    "datasets": dataset_folder,
    "datasets split": lambda folder: dataset_folder(folder, splits=True),
    "codes": codes,
    "dask": dask_array,
}


@pytest.fixture(scope="module", params=FORMATS)
def store(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "features"
    folder.mkdir()
    where, named = FORMATS[request.param](folder)
    return open_rows(where, **named)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    """Several parts and buffers even here."""
    monkeypatch.setattr(chunked, "PART_BYTES", 200)
    monkeypatch.setattr(shuffling, "CHUNK_BYTES", 100)
    monkeypatch.setattr(shuffling, "BUFFER_BYTES", 300)


def test_a_store_is_the_array(store):
    assert store.shape == (N, D)
    assert len(store) == N
    assert store.dtype == np.float32
    assert np.array_equal(np.asarray(store), X)
    assert np.array_equal(store.labels, Y if store.labels.min() == 0 else Y + 7)
    assert np.array_equal(np.concatenate(list(store.blocks())), X)
    assert np.array_equal(store[5], X[5])
    rows = as_rows(store)
    assert rows.shape == (N, D)
    assert np.array_equal(rows.dense(np.array([36, 0, 11])), X[[36, 0, 11]])
    assert np.allclose(rows.matmat(np.eye(D, dtype=np.float32)), X)


indices = st.one_of(
    st.slices(N),
    st.lists(st.integers(-N, N - 1), max_size=12),
    st.lists(st.booleans(), min_size=N, max_size=N).map(np.array),
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=indices, lo=st.integers(0, N - 1), length=st.integers(1, N))
def test_it_is_indexed_and_cut_as_an_array(store, rows, lo, length):
    expected = X[np.asarray(rows, int) if isinstance(rows, list) else rows]
    assert np.array_equal(store[rows], expected)
    part = pickle.loads(pickle.dumps(store.part(lo, lo + length)))
    assert isinstance(part, RowStore)
    assert np.array_equal(part[:], X[lo : lo + length])
    assert np.array_equal(part.labels, store.labels[lo : lo + length])
    inner = part.part(len(part) // 3, len(part))
    assert np.array_equal(np.asarray(inner), X[lo : lo + length][len(part) // 3 :])
    assert np.array_equal(inner.as_rows().dense(np.arange(len(inner))), np.asarray(inner))


def test_a_part_opens_only_its_files(tmp_path):
    folder, named = npy(_made(tmp_path / "features"))
    store = open_rows(folder, **named)
    part = store.part(12, 14)
    sent = pickle.dumps(part)
    assert len(sent) < 2000
    (folder / "part-8.npy").unlink()
    assert np.array_equal(pickle.loads(sent)[:], X[12:14])
    (folder / "part-10.npy").unlink()
    with pytest.raises(ValueError, match=r"part-10\.npy: no such file"):
        pickle.loads(sent)[:]


def test_a_store_can_be_sent_to_a_process_in_another_folder(tmp_path, monkeypatch):
    _made(tmp_path / "features")
    monkeypatch.chdir(tmp_path)
    npy(tmp_path / "features")
    store = open_rows("features", labels="y.npy")
    assert store.part(3, 5).as_rows().where(1) == "features/part-8.npy, row 4"
    sent = pickle.dumps(store)
    monkeypatch.chdir("/")
    again = pickle.loads(sent)
    assert np.array_equal(again[:], X)
    assert np.array_equal(again.labels, Y)


def test_rows_without_labels(tmp_path):
    folder, _ = npy(_made(tmp_path / "features"))
    store = open_rows(folder)
    assert store.labels is None
    assert store.part(2, 30).labels is None


def _made(folder):
    folder.mkdir()
    return folder


# -- which files, and what of them -----------------------------------------------------------------


def test_shards_are_taken_in_natural_order(tmp_path):
    names = ["part-10.npy", "part-2.npy", "a9/part-1.npy", "a10/part-1.npy"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        np.save(tmp_path / name, np.full((1, 1), int("10" in name)))
    assert sorted(names, key=natural) == [names[2], names[3], names[1], names[0]]
    assert open_rows(tmp_path / "part-*.npy")[:].ravel().tolist() == [0, 1]
    assert open_rows(str(tmp_path / "*/part-1.npy"))[:].ravel().tolist() == [0, 1]
    given = [tmp_path / name for name in names[:2]]
    assert open_rows(given)[:].ravel().tolist() == [1, 0]  # a list is taken as it is
    assert as_listed(names[:2]) == [names[1], names[0]]  # as a shell lists them
    assert as_listed(["old.npy", "new.npy"]) == ["old.npy", "new.npy"]  # as somebody wrote them


def test_labels_of_every_kind(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    words = np.array(["cat", "dog", "cat", "owl"])
    columns = {
        "words": pa.array(words),
        "coded": pa.array(words).dictionary_encode(),
        "large": pa.array(words, pa.large_string()),
        "bool": pa.array([True, False, True, True]),
        "int8": pa.array([3, 1, 2, 3], pa.int8()),
        "many": pa.array([[1, 0], [0, 1], [1, 1], [0, 0]]),
        "f0": pa.array([1.0, 2.0, 3.0, 4.0]),
    }
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    for name in ("words", "coded", "large"):
        store = open_rows(tmp_path / "d.parquet", key="f*", label=name)
        assert np.array_equal(store.labels, words)
    store = open_rows(tmp_path / "d.parquet", key="f0", label="bool")
    assert store.labels.tolist() == [True, False, True, True]
    assert open_rows(tmp_path / "d.parquet", key="f0", label="int8").labels.dtype == np.int8
    many = open_rows(tmp_path / "d.parquet", key="f0", label="many").labels
    assert many.tolist() == columns["many"].to_pylist()
    assert open_rows(tmp_path / "d.parquet", key="f0").labels is None


def test_strings_of_hdf5_and_labels_elsewhere(tmp_path):
    folder, named = hdf5((4, 2))(_made(tmp_path / "features"))
    named["label"] = "names"
    assert open_rows(folder, **named).labels.tolist() == [f"class {c}" for c in Y]
    labels = _made(tmp_path / "labels")
    for k, lo in enumerate(range(0, N, 7)):
        np.save(labels / f"y{k + 7}.npy", Y[lo : lo + 7])
    store = open_rows(folder, key=named["key"], labels=labels)
    assert np.array_equal(store.part(3, 33).labels, Y[3:33])


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_a_large_row_group_is_decoded_in_order(tmp_path, monkeypatch, compression):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    monkeypatch.setattr(of_parquet, "LARGE", 200)
    monkeypatch.setattr(of_parquet, "BATCH", 5 * D * 4)
    pq.write_table(table(X, Y, "fixed"), tmp_path / "X.parquet", 23, compression=compression)
    store = open_rows(tmp_path / "X.parquet")
    begun = []
    rows = store.files[0]
    monkeypatch.setattr(
        rows, "_batches", lambda g, of=rows._batches: begun.append(g) or of(g), raising=True
    )
    assert list(rows.edges) == [0, 5, 10, 15, 20, 23, 28, 33, N]
    assert np.array_equal(np.concatenate(list(store.blocks())), X)
    assert begun == [0, 1]  # each row group once
    for lo, hi in ((3, 9), (9, 12), (2, 30), (22, 24), (0, N), (36, N)):
        assert np.array_equal(rows.read(lo, hi), X[lo:hi])
    assert pa.total_allocated_bytes() < 2**20
