"""Memory nodes that demand a secret, and nodes that speak TLS."""

import pickle
import re
import shutil
import subprocess
import time

import pytest
from conftest import in_fork, needs, status_of

import atoll


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """A file with a secret, which the environment names."""
    path = tmp_path / "secret"
    path.write_text("a secret of some length\n")
    monkeypatch.setenv("ATOLL_SECRET_FILE", str(path))
    return path


@pytest.fixture
def certificate(tmp_path):
    """Makes a certificate that signs itself, and its key, as the README does."""
    needs("openssl", shutil.which("openssl"), "no program openssl: apt-get install openssl")

    def make(name, subject="IP:127.0.0.1", constraints="CA:FALSE"):
        made, key = tmp_path / f"{name}.crt", tmp_path / f"{name}.key"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        command += ["-addext", f"subjectAltName={subject}", "-addext", f"basicConstraints={constraints}"]
        subprocess.run([*command, "-keyout", key, "-out", made], check=True, capture_output=True)
        return made, key

    return make


OTHER_PROCESS = """
cache = atoll.Cache(sys.argv[1])
print(cache['from'])
cache['back'] = 'there'
"""


def use(cache, program):
    """Uses a cache in this process, in another one and in a fork."""
    cache["from"] = "here"
    assert program(OTHER_PROCESS, cache.address).communicate()[0].strip() == "here"
    assert cache["back"] == "there"
    large = bytes(range(256)) * 1000
    cache["large"] = large

    def work():
        assert cache["large"] == large
        cache["child"] = 1

    assert status_of(in_fork(work)) == 0
    assert cache["child"] == 1


def test_processes_that_know_the_secret_use_a_node(start_node, secret, program):
    node = start_node("--secret-file", secret)
    with atoll.Cache(node.address, capacity="16MiB") as cache:
        use(cache, program)
    assert atoll.remove(node.address) == 16 << 20


def test_a_process_without_the_secret_is_told_how_to_give_it(start_node, secret, monkeypatch):
    node = start_node("--secret-file", secret)
    monkeypatch.delenv("ATOLL_SECRET_FILE")
    with pytest.raises(atoll.OpenFailed, match="wants a secret: name the file that holds it in ATOLL_SECRET_FILE"):
        atoll.Cache(node.address)
    with pytest.raises(atoll.OpenFailed, match="ATOLL_SECRET_FILE"):
        atoll.remove(node.address)


def test_a_process_with_another_secret_is_told_so(start_node, secret, tmp_path, monkeypatch):
    node = start_node("--secret-file", secret)
    with atoll.Cache(node.address, capacity="16MiB") as cache:
        other = tmp_path / "other"
        other.write_text("another secret of some length\n")
        monkeypatch.setenv("ATOLL_SECRET_FILE", str(other))
        with pytest.raises(atoll.OpenFailed, match="refuses the secret: the file that ATOLL_SECRET_FILE names"):
            atoll.Cache(node.address)
        # It concerns no cache that is open.
        cache["key"] = 1
        assert cache["key"] == 1


def test_a_file_that_holds_no_secret_is_named(start_node, secret, monkeypatch):
    node = start_node("--secret-file", secret)
    secret.write_text("short\n")
    with pytest.raises(atoll.OpenFailed, match=f"{re.escape(str(secret))}: .*at least 16"):
        atoll.Cache(node.address)
    monkeypatch.setenv("ATOLL_SECRET_FILE", "/nowhere/secret")
    with pytest.raises(atoll.OpenFailed, match="/nowhere/secret: cannot read the secret"):
        atoll.Cache(node.address)


def test_processes_that_trust_its_certificate_use_a_node_within_tls(start_node, certificate, secret, program):
    made, key = certificate("node")
    options = ["--tls-cert", made, "--tls-key", key, "--secret-file", secret]
    one, *several = [start_node(*options).address for _ in range(3)]
    for address in [f"{one}?ca={made}", f"tcp:{','.join(several).replace('tcp:', '')}?ca={made}"]:
        with atoll.Cache(address, capacity="32MiB", near="1MiB") as cache:
            use(cache, program)
            with pickle.loads(pickle.dumps(cache)) as copy:
                assert copy["from"] == "here"


def test_a_process_that_speaks_no_tls_is_told_how_to(start_node, certificate):
    made, key = certificate("node")
    node = start_node("--tls-cert", made, "--tls-key", key)
    with pytest.raises(atoll.OpenFailed, match=r"if it wants TLS, name the file of its authority .*\?ca=FILE"):
        atoll.Cache(node.address)


def test_a_certificate_that_does_not_fit_is_an_error_that_says_what_must(start_node, certificate, tmp_path):
    made, key = certificate("node")
    node = start_node("--tls-cert", made, "--tls-key", key)
    other, _ = certificate("other")
    with pytest.raises(atoll.OpenFailed, match=r"authority in the file behind \?ca= must have signed"):
        atoll.Cache(f"{node.address}?ca={other}")
    # It is a certificate of 127.0.0.1.
    by_name = node.address.replace("127.0.0.1", "localhost")
    with pytest.raises(atoll.OpenFailed, match="names the host of the address"):
        atoll.Cache(f"{by_name}?ca={made}")
    with pytest.raises(atoll.OpenFailed, match="nowhere.crt: cannot read the certificate of the authority"):
        atoll.Cache(f"{node.address}?ca=nowhere.crt")
    # What openssl makes by default.
    authority, key = certificate("authority", constraints="CA:TRUE")
    node = start_node("--tls-cert", authority, "--tls-key", key)
    with pytest.raises(atoll.OpenFailed, match="CA:FALSE"):
        atoll.Cache(f"{node.address}?ca={authority}")


def test_a_node_without_tls_is_an_error_that_says_so(start_node, certificate):
    made, _ = certificate("node")
    node = start_node()
    with pytest.raises(atoll.OpenFailed, match=r"leave out \?ca=FILE"):
        atoll.Cache(f"{node.address}?ca={made}")


def test_a_pool_can_be_removed_as_soon_as_it_is_closed(start_node, certificate):
    """Also if the thread that tends the pool is at work, which takes longest within TLS."""
    made, key = certificate("node")
    address = f"{start_node('--tls-cert', made, '--tls-key', key).address}?ca={made}"
    for number in range(15):
        with atoll.Cache(address, capacity="16MiB") as cache:
            cache["key"] = number
            # It tends the pool every 100 ms.
            time.sleep(0.1)
        assert atoll.remove(address) == 16 << 20
