"""The httpx client in unittest, without pytest's fixtures. `python -m unittest` runs it too."""

import unittest

import httpx
from ehr_httpx import EhrClient, EhrError

from medagent.testing import FhirData

PATIENT = {"resourceType": "Patient", "id": "p1", "name": [{"family": "Ames"}]}


class EhrTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.data = cls.enterClassContext(FhirData())

    def setUp(self) -> None:
        self.fhir = self.enterContext(self.data.double(PATIENT))
        client = httpx.Client(transport=self.fhir.transport(), base_url="https://ehr.example.org/r4/", timeout=2)
        self.ehr = EhrClient(self.enterContext(client))

    def test_a_phone_number_is_changed_once(self) -> None:
        self.ehr.set_phone("p1", "555-0100")
        sent = self.fhir.assert_requested("PUT", "Patient/p1", times=1, if_match='W/"1"')
        self.assertEqual(sent.json["telecom"], [{"system": "phone", "value": "555-0100"}])

    def test_a_change_by_another_client_is_not_overwritten(self) -> None:
        self.fhir.stale(on="Patient/p1")
        with self.assertRaises(EhrError):
            self.ehr.set_phone("p1", "555-0100")
        self.assertNotIn("telecom", self.fhir.get("Patient/p1"))


if __name__ == "__main__":
    unittest.main()
