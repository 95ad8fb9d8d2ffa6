"""What README.md recommends to who needs TLS: a proxy that knows it, in front of the server's unix socket."""

import os
import pathlib
import sys

import grpc
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))

import reference  # noqa: E402
from aclnn_client import AclnnError, Client  # noqa: E402
from server_process import BINARY, ServerProcess  # noqa: E402
from tls_proxy import TlsProxy, make_certificate  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists(BINARY), reason=f"{BINARY} was not built")


@pytest.fixture(scope="module", name="proxy_and_root")
def fixture_proxy_and_root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = make_certificate(folder)
    with ServerProcess("--npu", "off", listen=(f"unix:{folder}/socket",)), TlsProxy(
            folder / "socket", certificate, key) as proxy:
        yield proxy, certificate.read_bytes()


def test_job_through_tls_has_the_same_bits(proxy_and_root):
    proxy, root = proxy_and_root
    x = np.random.default_rng(5).standard_normal((4, 16, 112, 112), dtype=np.float32)
    with Client(proxy.address, credentials=grpc.ssl_channel_credentials(root), timeout=60) as client:
        out, indices = client.adaptive_max_pool2d(x, (7, 7))
    expected_out, expected_indices = reference.forward(x, (7, 7))
    np.testing.assert_array_equal(out, expected_out)
    np.testing.assert_array_equal(indices, expected_indices)


def test_certificate_of_a_stranger_is_refused(proxy_and_root, tmp_path):
    proxy, _ = proxy_and_root
    stranger = make_certificate(tmp_path)[0].read_bytes()
    with Client(proxy.address, credentials=grpc.ssl_channel_credentials(stranger), timeout=60, retries=0) as client:
        with pytest.raises(AclnnError) as error:
            client.server_info()
    assert error.value.code == grpc.StatusCode.UNAVAILABLE


def test_plain_client_is_refused_by_the_proxy(proxy_and_root):
    proxy, _ = proxy_and_root
    with Client(proxy.address, timeout=60, retries=0) as client, pytest.raises(AclnnError):
        client.server_info()
