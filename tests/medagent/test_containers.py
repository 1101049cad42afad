"""Images, compose files and manifests say what docs/cluster.md promises, and their commands exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml

from medagent.benchmarks.base import find
from medagent.core.options import options
from tests.shared_data import ROOT

KUBERNETES = ROOT / "examples" / "kubernetes"
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
FLAGS = {f"--{option.flag}" for option in options(find("medagentbench").Settings)} | {"--quiet"}


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(KUBERNETES.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            yield f"{file.name} {document['kind']}", document


DOCUMENTS = dict(documents())


def pods(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The specs of a document's pods."""
    spec = document["spec"]
    if document["kind"] == "DaskCluster":
        return [spec["worker"]["spec"], spec["scheduler"]["spec"]]
    return [spec["template"]["spec"]] if "template" in spec else []


def instructions(dockerfile: str) -> list[list[str]]:
    """The instructions of a Dockerfile, each as its name and its text."""
    text = re.sub(r"^#.*\n", "", (ROOT / dockerfile).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [line.split(maxsplit=1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_manifest_fits_the_schemas_and_runs_as_nobody_who_may_do_harm(name: str) -> None:
    document = DOCUMENTS[name]
    if document["kind"] != "DaskCluster":
        kubernetes_validate.validate(document, "1.32", strict=True)
    for spec in pods(document):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
        kubernetes_validate.validate(pod, "1.32", strict=True)
        (container,) = spec["containers"]
        security = {**spec["securityContext"], **container["securityContext"]}
        assert (security["runAsNonRoot"], security["readOnlyRootFilesystem"]) == (True, True)
        assert (security["allowPrivilegeEscalation"], security["capabilities"]) == (False, {"drop": ["ALL"]})
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted["tmp"] == "/tmp"
        assert set(mounted) == {volume["name"] for volume in spec["volumes"]}
        words = shlex.split(" ".join(container.get("args", [])))
        if "run" in words:
            words = words[words.index("run") :]
            assert {word for word in words if word.startswith("--")} <= FLAGS
            assert words[words.index("--results-dir") + 1] == mounted["results"] == "/data"


def test_a_cluster_job_asks_for_the_scheduler_of_the_dask_cluster() -> None:
    service = DOCUMENTS["dask-cluster.yaml DaskCluster"]
    (pod,) = pods(DOCUMENTS["cluster-job.yaml Job"])
    words = pod["containers"][0]["args"]
    port = service["spec"]["scheduler"]["service"]["ports"][0]["port"]
    assert words[words.index("--cluster") + 1] == f"tcp://{service['metadata']['name']}-scheduler:{port}"


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "integrations/openenv/Dockerfile"])
def test_an_image_is_pinned_labelled_and_any_users(dockerfile: str) -> None:
    steps = instructions(dockerfile)
    base = next(text for name, text in steps if name == "ARG")
    assert DIGEST.search(base)
    stages = [text.split() for name, text in steps if name == "FROM"]
    assert {words[0] for words in stages} <= {"${PYTHON}", *(words[2] for words in stages if len(words) == 3)}
    copied = [text.split()[0] for name, text in steps if name == "COPY"]
    assert copied.index("constraints") < copied.index("medagent")
    installs = [place for place, (name, text) in enumerate(steps) if name == "RUN" and "pip" in text]
    sources = next(place for place, (name, text) in enumerate(steps) if name == "COPY" and text.startswith("medagent"))
    assert installs[0] < sources
    assert "--no-deps" in steps[next(place for place in installs if place > sources)][1]
    assert "PIP_CONSTRAINT" in " ".join(text for name, text in steps if name == "ENV")
    labels = next(text for name, text in steps if name == "LABEL")
    assert {"title", "licenses", "version", "revision"} <= set(re.findall(r"opencontainers\.image\.(\w+)=", labels))
    assert [text for name, text in steps if name == "USER"][-1] == "1000:0"
    assert any(name == "HEALTHCHECK" for name, _ in steps)
    assert "g=u" in " ".join(text for name, text in steps if name == "RUN")


def test_the_compose_walkthrough_runs_as_whoever_gives_it() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    for name in ("runner", "embedded"):
        assert (services[name]["read_only"], services[name]["tmpfs"]) == (True, ["/tmp"])
        assert services[name]["cap_drop"] == ["ALL"]
    assert services["runner"]["user"] == "${UID:-1000}:${GID:-0}"
    command = services["runner"]["command"]
    assert {word for word in command if word.startswith("--")} <= FLAGS
    images = {service["image"] for name, service in services.items() if name not in ("runner", "embedded", "hapi")}
    assert all(DIGEST.search(image) for image in images)


def test_docs_name_every_manifest() -> None:
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert {file.name for file in KUBERNETES.iterdir()} == set(re.findall(r"examples/kubernetes/([\w-]+\.yaml)", text))


def test_the_walkthrough_of_the_docs_is_what_ci_runs_as_several_users() -> None:
    script = (ROOT / ".ci" / "containers").read_text(encoding="utf-8")
    assert "for user in 0 1000 1234 1234:0; do" in script
    closed = re.search(r"^closed=\((.*)\)$", script, re.MULTILINE)
    assert closed
    text = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8").replace("\\\n", "")
    runs = [shlex.split(line) for line in text.splitlines() if line.startswith("docker run ")]
    assert runs
    for words in runs:
        place = words.index("medagent")
        settings, command = words[2:place], words[place + 1 :]
        assert set(closed[1].split()) <= set(settings)
        assert settings[-1].endswith(":/work/results")
        assert {word for word in command if word.startswith("--")} <= FLAGS
