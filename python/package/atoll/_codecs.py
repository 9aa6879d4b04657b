"""How values are written that are not bytes, text or a number."""

import json as _json
import pickle as _pickle
from typing import Any, Protocol


class Codec(Protocol):
    """What ``Cache(..., codec=...)`` takes. A codec of a program's own has flags of its own, from
    256 to 2**32 - 1. They are kept with each value, so that no codec reads what another wrote."""

    @property
    def flags(self) -> int: ...

    def encode(self, value: Any, /) -> bytes: ...

    def decode(self, data: bytes, /) -> Any: ...


class _Json:
    """JSON. It is safe to read from a pool that other programs write. Tuples come back as lists."""

    flags = 32

    def encode(self, value: Any, /) -> bytes:
        return _json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    def decode(self, data: bytes, /) -> Any:
        return _json.loads(data)

    def __reduce__(self) -> str:
        return "json"

    def __repr__(self) -> str:
        return "atoll.json"


class _Pickle:
    """Pickles. To read one runs what its writer says: use it only if every process that can write
    the pool is trusted."""

    flags = 1

    def encode(self, value: Any, /) -> bytes:
        return _pickle.dumps(value, _pickle.HIGHEST_PROTOCOL)

    def decode(self, data: bytes, /) -> Any:
        return _pickle.loads(data)

    def __reduce__(self) -> str:
        return "pickle"

    def __repr__(self) -> str:
        return "atoll.pickle"


json: Codec = _Json()
pickle: Codec = _Pickle()
