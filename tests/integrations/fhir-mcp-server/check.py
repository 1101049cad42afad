"""wso2's fhir-mcp-server over `medagent serve`: it says what the server can, searches, reads and creates."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = Path(sys.executable).parent


async def check(base: str, patient: str) -> str:
    """What was found."""
    settings = {
        "FHIR_SERVER_BASE_URL": base,
        "FHIR_SERVER_ACCESS_TOKEN": "unused",  # over stdio it insists on one
        "FHIR_SERVER_DISABLE_AUTHORIZATION": "True",
    }
    words = ["--transport", "stdio", "--log-level", "error"]
    server = StdioServerParameters(command=str(HERE / "fhir-mcp-server"), args=words, env={**os.environ, **settings})
    async with stdio_client(server) as (incoming, outgoing), ClientSession(incoming, outgoing) as client:
        await client.initialize()

        async def call(tool: str, **arguments: object) -> str:
            answer = await client.call_tool(tool, arguments)
            assert not answer.isError, answer
            return "".join(part.text for part in answer.content)

        assert "identifier" in await call("get_capabilities", type="Patient")
        found = await call("search", type="Patient", searchParam={"identifier": patient})
        assert patient in found, found
        observations = await call("search", type="Observation", searchParam={"patient": patient, "_count": "2"})
        assert "Observation" in observations, observations
        read = json.loads(await call("read", type="Patient", id=patient))
        assert "birthDate" in json.dumps(read), read
        nobody = await call("search", type="Patient", searchParam={"identifier": "nobody"})
        assert "birthDate" not in nobody, nobody
        refused = await client.call_tool("read", {"type": "Patient", "id": "nobody"})
        assert "birthDate" not in str(refused), refused
        basic = {"resourceType": "Basic", "code": {"text": "made by fhir-mcp-server"}}
        created = await call("create", type="Basic", payload=basic)
        assert "made by fhir-mcp-server" in created, created
        tools = (await client.list_tools()).tools
    return f"{len(tools)} tools; capabilities, search, read and create work"


served = subprocess.Popen([os.environ["MEDAGENT"], "serve", "--port", "0"], stderr=subprocess.PIPE, text=True)
try:
    base = ""
    while "http" not in base:
        base = served.stderr.readline()
        assert base, "the server has ended"
    url = base.split()[1]
    with urlopen(f"{url}/Patient?_count=1") as reply:
        first = json.load(reply)["entry"][0]["resource"]["id"]
    print(asyncio.run(check(url, first)))
finally:
    served.terminate()
    served.communicate(timeout=60)
