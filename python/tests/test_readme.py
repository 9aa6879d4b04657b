"""What the README shows works."""

import pathlib
import re

import atoll

README = pathlib.Path(__file__).parent.parent / "README.md"


def test_the_first_example_works(address):
    example = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]
    assert '"shm:/app"' in example
    names = {"load_user": lambda number: f"user {number}", "__name__": "example"}
    exec(example.replace("shm:/app", address).replace("256MiB", "16MiB"), names)
    cache = names["cache"]
    assert cache.get("user:7") == "alice" and names["user"] == "user 8"
    assert cache["visits"] == 1 and names["report"]("monday") is None
    cache.close()


def test_every_name_of_the_package_is_documented():
    for name in atoll.__all__:
        assert getattr(atoll, name).__doc__, name
    for name, member in vars(atoll.Cache.__base__).items():
        assert name.startswith("_") or member.__doc__, name
