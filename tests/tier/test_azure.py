"""Azure Blob Storage keeps the contract of stores, as far as Azurite tells."""

from collections.abc import Iterator

import pytest

from harness import azure_server
from harness.azure_server import AzureServer
from penstock.runtime.io.azure_store import (
    DELETES_AT_ONCE,
    AzureContainer,
    AzureSettings,
    open_azure,
)
from penstock.tier.errors import CredentialsRefused, StoreUnavailable
from penstock.tier.port import Plain
from tests.tier.store_contract import StoreContract, listed, run


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    program = azure_server.program()
    if isinstance(program, str):
        pytest.skip(program)
    with AzureServer(program, tmp_path_factory.mktemp("azure")) as server:
        yield server


def of_azure(
    server: AzureServer, prefix: str, *, key: str = azure_server.KEY, container: str = "tier"
) -> AzureSettings:
    return AzureSettings(
        bucket=container,
        endpoint=server.endpoint,
        account=azure_server.ACCOUNT,
        account_key=key,
        prefix=prefix,
        request_ms=120_000,
    )


@pytest.mark.compat
class TestAzure(StoreContract):
    """Azurite; each test has a prefix of its own in the container."""

    @pytest.fixture
    def store(self, azure: AzureServer, request: pytest.FixtureRequest) -> AzureContainer:
        return open_azure(of_azure(azure, str(abs(hash(request.node.name)))))

    def test_more_names_than_are_deleted_at_once_all_go(self, store: AzureContainer) -> None:
        names = [f"a/{number:02}" for number in range(2 * DELETES_AT_ONCE + 1)]

        async def work() -> None:
            for name in names:
                await store.put(name, [b"x"])
            await store.delete([*names[1:], "a/none"])
            assert await listed(store, "a") == {names[0]: 1}

        run(work())

    def test_credentials_that_are_wrong_are_told_from_everything_else(
        self, azure: AzureServer
    ) -> None:
        async def work() -> None:
            settings = of_azure(azure, "x", key=azure_server.OTHER_KEY)
            with pytest.raises(CredentialsRefused):
                await open_azure(settings).put("a/one", [b"x"], Plain.ABSENT)

        run(work())

    def test_a_container_that_is_missing_is_no_missing_object(self, azure: AzureServer) -> None:
        async def work() -> None:
            store = open_azure(of_azure(azure, "x", container="nobodys"))
            for asking in (
                store.put("a/one", [b"x"]),
                store.read("a/one", 0, 1),
                store.delete(["a/one"]),
            ):
                with pytest.raises(StoreUnavailable):
                    await asking

        run(work())
