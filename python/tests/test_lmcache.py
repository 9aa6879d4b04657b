"""The remote backend for LMCache, over LMCache's own abstract class.

LMCache needs torch, which is a gigabyte. The class itself does not: it is loaded from LMCache's file,
with stand-ins for the modules that the file imports. So the test finds out when LMCache changes its
interface.
"""

import asyncio
import importlib.util
import pathlib
import sys
import types
from importlib.metadata import PackageNotFoundError, distribution

import pytest

import atoll

CHUNK_TOKENS, TOKEN_BYTES = 16, 64 << 10
BASE = "lmcache.v1.storage_backend.connector.base_connector"


class Memory:
    """Memory that LMCache lends."""

    def __init__(self, data):
        self.raw_data, self.references = data, 1
        self.meta = types.SimpleNamespace(shape=(2, 1, len(data) // TOKEN_BYTES, 1))

    @property
    def byte_array(self):
        return memoryview(self.raw_data)

    def ref_count_down(self):
        self.references -= 1


class Key:
    def __init__(self, number):
        self.number = number

    def to_string(self):
        return f"model@1@0@{self.number:x}@bfloat16"


def module(name, **attributes):
    made = types.ModuleType(name)
    made.__dict__.update(attributes)
    made.__path__ = []
    return made


@pytest.fixture
def connector_class(monkeypatch):
    try:
        folder = pathlib.Path(distribution("lmcache").locate_file("lmcache"))
    except PackageNotFoundError:
        pytest.skip("it needs `pip install --no-deps lmcache`")
    anything = type("Anything", (), {})
    log = types.SimpleNamespace(info=lambda *_: None, warning=lambda *_: None)
    stand_ins = {
        "torch": dict(Size=tuple, dtype=object),
        "lmcache": {},
        "lmcache.integration": {},
        "lmcache.integration.vllm": {},
        "lmcache.integration.vllm.utils": dict(get_size_bytes=lambda *_: CHUNK_TOKENS * TOKEN_BYTES),
        "lmcache.logging": dict(init_logger=lambda _: log),
        "lmcache.utils": dict(CacheEngineKey=Key),
        "lmcache.v1": {},
        "lmcache.v1.config": dict(LMCacheEngineConfig=anything),
        "lmcache.v1.memory_management": dict(
            MemoryFormat=types.SimpleNamespace(KV_MLA_FMT=1, KV_2LTD=2), MemoryObj=Memory
        ),
        "lmcache.v1.metadata": dict(LMCacheMetadata=anything),
        "lmcache.v1.protocol": dict(
            get_remote_metadata_bytes=lambda: 28, init_remote_metadata_info=lambda _: None
        ),
        "lmcache.v1.storage_backend": {},
        "lmcache.v1.storage_backend.connector": {},
    }
    for name, attributes in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, module(name, **attributes))
    path = folder.joinpath(*BASE.split(".")[1:]).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(BASE, path)
    base = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, BASE, base)
    spec.loader.exec_module(base)
    monkeypatch.delitem(sys.modules, "atoll.lmcache", raising=False)
    import atoll.lmcache

    yield atoll.lmcache.AtollConnector
    del sys.modules["atoll.lmcache"]


class Backend:
    """LMCache's memory of a process."""

    def __init__(self, config):
        self.config, self.lent, self.room = config, [], 100
        self.metadata = types.SimpleNamespace(
            get_shapes=lambda: [(2, 1, CHUNK_TOKENS, 1)], get_dtypes=lambda: ["bf16"], use_mla=False,
            chunk_size=CHUNK_TOKENS, get_num_groups=lambda: 1,
        )

    def allocate(self, shapes, dtypes, fmt):
        if len(self.lent) == self.room:
            return None
        self.lent.append(Memory(bytearray(CHUNK_TOKENS * TOKEN_BYTES)))
        return self.lent[-1]


def config(**options):
    extra = {f"remote_storage_plugin.atoll.{name}": value for name, value in options.items()}
    return types.SimpleNamespace(extra_config=extra, use_layerwise=False)


def chunk(number, tokens=CHUNK_TOKENS):
    return Memory(bytearray([number]) * (tokens * TOKEN_BYTES))


def test_chunks_are_kept_and_found_by_the_prefix_rule(connector_class, address):
    settings = config(address=address, capacity="64MiB")
    backend = Backend(settings)

    async def play():
        connector = connector_class(loop=asyncio.get_running_loop(), local_cpu_backend=backend, config=settings)
        assert connector.support_batched_put() and connector.support_batched_get()
        assert connector.support_batched_contains() and await connector.ping() == 0
        keys = [Key(number) for number in range(5)]
        chunks = [chunk(number) for number in range(4)]
        await connector.batched_put(keys[:3], chunks[:3])
        await connector.put(keys[3], chunks[3])
        # The caller gives the memory back that it lent for a put.
        assert all(chunk.references == 1 for chunk in chunks)
        assert await connector.exists(keys[3]) and not connector.exists_sync(keys[4])
        assert connector.batched_contains(keys) == 4
        assert await connector.batched_async_contains("lookup", keys) == 4
        found = await connector.batched_get(keys)
        assert [memory and memory.raw_data for memory in found] == [*(chunk.raw_data for chunk in chunks), None]
        assert connector.remove_sync(keys[1]) and not connector.remove_sync(keys[1])
        assert connector.batched_contains(keys) == 1
        assert len(await connector.batched_get_non_blocking("lookup", keys)) == 1
        assert await connector.get(keys[1]) is None
        assert (await connector.get(keys[2])).raw_data == chunks[2].raw_data
        await connector.close()

    asyncio.run(play())
    assert all(memory.references == 1 for memory in backend.lent), "what was returned is the caller's"
    connected = connector_class(loop=None, local_cpu_backend=backend, config=settings)
    connected.cache.close()


def test_a_short_chunk_has_fewer_tokens_and_memory_that_is_not_used_is_given_back(connector_class, address):
    settings = config(address=address, capacity="64MiB")
    backend = Backend(settings)
    connector = connector_class(loop=None, local_cpu_backend=backend, config=settings)

    async def play():
        keys = [Key(number) for number in range(3)]
        await connector.batched_put(keys, [chunk(1), chunk(2, tokens=5), chunk(3)])
        found = await connector.batched_get(keys)
        assert [memory.meta.shape[2] for memory in found] == [CHUNK_TOKENS, 5, CHUNK_TOKENS]
        assert found[1].raw_data == chunk(2, tokens=5).raw_data
        # No memory is left for the third.
        backend.lent, backend.room = [], 2
        assert [bool(memory) for memory in await connector.batched_get(keys)] == [True, True, False]
        # A length that no chunk has: nothing is returned, and all memory is given back.
        connector.cache.set(keys[1].to_string(), b"odd")
        backend.lent, backend.room = [], 100
        with pytest.raises(ValueError):
            await connector.batched_get(keys)
        assert len(backend.lent) == 3 and all(memory.references == 0 for memory in backend.lent)

    asyncio.run(play())
    connector.cache.close()


def test_wrong_settings_say_what_to_do(connector_class, address):
    with pytest.raises(ValueError, match="address is missing"):
        connector_class(loop=None, local_cpu_backend=Backend(config()), config=config())
    layerwise = config(address=address)
    layerwise.use_layerwise = True
    with pytest.raises(ValueError, match="use_layerwise"):
        connector_class(loop=None, local_cpu_backend=Backend(layerwise), config=layerwise)
    with pytest.raises(atoll.PoolAbsent):
        atoll.Cache(address, create=False)
