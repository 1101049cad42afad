"""How a session reaches FHIR: the embedded server in process, or any FHIR server over HTTP."""

from medagent.benchmarks.medagentbench.ehr.base import Ehr, EhrSession, Reply

__all__ = ["Ehr", "EhrSession", "Reply"]
