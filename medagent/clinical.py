"""Task types of your own: a text, and a rule that is a function of a patient's chart. docs/clinical.md shows how."""

from refsol.clinical.chart import Chart, Event, Number
from refsol.clinical.checking import Checked, check
from refsol.clinical.codes import CPT, LOINC, NDC, RXNORM, SNOMED, Code, Drug, Lab, days, hours
from refsol.clinical.meanings import Is, Near, OneOf
from refsol.clinical.orders import imaging, lab_test, medication, referral, stop
from refsol.clinical.rulings import Edit, Ruling, answer, delete, nothing, order, update
from refsol.clinical.searches import Search
from refsol.clinical.task_type import RuleError, TaskType
from refsol.errors import DataFault

__all__ = [
    "CPT",
    "LOINC",
    "NDC",
    "RXNORM",
    "SNOMED",
    "Chart",
    "Checked",
    "Code",
    "DataFault",
    "Drug",
    "Edit",
    "Event",
    "Is",
    "Lab",
    "Near",
    "Number",
    "OneOf",
    "RuleError",
    "Ruling",
    "Search",
    "TaskType",
    "answer",
    "check",
    "days",
    "delete",
    "hours",
    "imaging",
    "lab_test",
    "medication",
    "nothing",
    "order",
    "referral",
    "stop",
    "update",
]
