import ca.uhn.fhir.context.FhirContext;
import ca.uhn.fhir.rest.api.EncodingEnum;
import ca.uhn.fhir.rest.api.MethodOutcome;
import ca.uhn.fhir.rest.api.PreferReturnEnum;
import ca.uhn.fhir.rest.api.SummaryEnum;
import ca.uhn.fhir.rest.client.api.IGenericClient;
import ca.uhn.fhir.rest.client.api.ServerValidationModeEnum;
import ca.uhn.fhir.rest.client.apache.GZipContentInterceptor;
import ca.uhn.fhir.rest.client.interceptor.AdditionalRequestHeadersInterceptor;
import ca.uhn.fhir.rest.client.interceptor.BearerTokenAuthInterceptor;
import ca.uhn.fhir.rest.server.exceptions.BaseServerResponseException;
import java.util.List;
import org.hl7.fhir.instance.model.api.IBaseBundle;
import org.hl7.fhir.instance.model.api.IBaseResource;
import org.hl7.fhir.r4.model.Bundle;
import org.hl7.fhir.r4.model.CapabilityStatement;
import org.hl7.fhir.r4.model.CodeType;
import org.hl7.fhir.r4.model.DateTimeType;
import org.hl7.fhir.r4.model.IdType;
import org.hl7.fhir.r4.model.InstantType;
import org.hl7.fhir.r4.model.Meta;
import org.hl7.fhir.r4.model.Observation;
import org.hl7.fhir.r4.model.OperationOutcome;
import org.hl7.fhir.r4.model.Organization;
import org.hl7.fhir.r4.model.Parameters;
import org.hl7.fhir.r4.model.Patient;
import org.hl7.fhir.r4.model.Quantity;
import org.hl7.fhir.r4.model.Reference;
import org.hl7.fhir.r4.model.StringType;

/** HAPI's generic client: arguments are the address of a server and a word of letters that no earlier run has used. */
public class Calls {
  static final String SYSTEM = "http://example.org/mrn";
  static final String LOINC = "http://loinc.org";
  static final FhirContext CONTEXT = FhirContext.forR4();
  static String run;
  static IGenericClient client;
  static String patientId;
  static String organizationId;

  interface Check {
    Object call() throws Exception;
  }

  public static void main(String[] arguments) {
    run = arguments[1];
    CONTEXT.getRestfulClientFactory().setServerValidationMode(ServerValidationModeEnum.ONCE);
    CONTEXT.getRestfulClientFactory().setSocketTimeout(120_000);
    client = CONTEXT.newRestfulGenericClient(arguments[0]);
    negotiation();
    crud();
    conditional();
    patches();
    histories();
    Searches.searches();
    Searches.pages();
    bundles();
    operations();
  }

  /** Prints what a call came to: its name, `ok` or `failed`, and what was answered. */
  static void call(String name, Check check) {
    try {
      say(name, "ok", String.valueOf(check.call()));
    } catch (BaseServerResponseException error) {
      say(name, "failed", error.getClass().getSimpleName() + " " + error.getStatusCode() + " " + error.getMessage());
    } catch (Exception | AssertionError error) {
      say(name, "failed", error.toString());
    }
  }

  /** A call that must be refused. */
  static void refused(String name, Check check) {
    try {
      say(name, "failed", "was not refused: " + check.call());
    } catch (BaseServerResponseException error) {
      say(name, "ok", error.getClass().getSimpleName() + " " + error.getStatusCode() + " " + error.getMessage());
    } catch (Exception error) {
      say(name, "failed", error.toString());
    }
  }

  static void say(String name, String result, String said) {
    System.out.println(name + "\t" + result + "\t" + said.replaceAll("\\s+", " "));
  }

  static Patient patient(String name) {
    Patient patient = new Patient();
    patient.addIdentifier().setSystem(SYSTEM).setValue(run + name);
    patient.addName().setFamily(run + name).addGiven("Anna");
    patient.setActive(true).setBirthDateElement(new org.hl7.fhir.r4.model.DateType("1980-02-03"));
    return patient;
  }

  static Observation observation(String code, double value, String time) {
    Observation observation = new Observation();
    observation.setStatus(Observation.ObservationStatus.FINAL).setSubject(new Reference("Patient/" + patientId));
    observation.getCode().addCoding().setSystem(LOINC).setCode(run + code);
    observation.setEffective(new DateTimeType(time));
    observation.setValue(new Quantity(value).setUnit("mg").setSystem("http://unitsofmeasure.org").setCode("mg"));
    return observation;
  }

  static String count(IBaseBundle given) {
    Bundle bundle = (Bundle) given;
    return bundle.getEntry().size() + " entries, total " + (bundle.hasTotal() ? bundle.getTotal() : "none") + ", links "
        + bundle.getLink().stream().map(Bundle.BundleLinkComponent::getRelation).sorted().toList();
  }

  static String outcome(MethodOutcome outcome) {
    String details = outcome.getOperationOutcome() instanceof OperationOutcome given
        ? given.getIssueFirstRep().getDiagnostics() + " " + given.getIssueFirstRep().getDetails().getCodingFirstRep().getCode()
        : "no outcome";
    return "created " + outcome.getCreated() + ", status " + outcome.getResponseStatusCode() + ", version "
        + (outcome.getId() == null ? "none" : outcome.getId().getVersionIdPart()) + ", resource "
        + (outcome.getResource() == null ? "none" : outcome.getResource().fhirType()) + ", " + details;
  }

  static void negotiation() {
    call("capabilities", () -> client.capabilities().ofType(CapabilityStatement.class).execute().getFhirVersion());
    call("capabilities as XML", () -> client.capabilities().ofType(CapabilityStatement.class).encodedXml().execute()
        .getFormat().stream().map(CodeType::getValue).toList());
    call("bearer token", () -> {
      BearerTokenAuthInterceptor token = new BearerTokenAuthInterceptor("word");
      client.registerInterceptor(token);
      try {
        return client.capabilities().ofType(CapabilityStatement.class).execute().getStatus();
      } finally {
        client.unregisterInterceptor(token);
      }
    });
  }

  static void crud() {
    call("create", () -> {
      MethodOutcome outcome = client.create().resource(patient("one")).prettyPrint().encodedJson().execute();
      patientId = outcome.getId().getIdPart();
      return outcome(outcome);
    });
    call("create an organization", () -> {
      MethodOutcome outcome = client.create().resource(new Organization().setName(run + "org")).execute();
      organizationId = outcome.getId().getIdPart();
      return outcome(outcome);
    });
    call("create as XML", () -> outcome(client.create().resource(patient("xml")).encodedXml().execute()));
    call("create from text", () -> outcome(client.create()
        .resource(CONTEXT.newJsonParser().encodeResourceToString(patient("text"))).execute()));
    call("create minimal", () -> outcome(client.create().resource(patient("min")).prefer(PreferReturnEnum.MINIMAL).execute()));
    call("create with outcome", () -> outcome(client.create().resource(patient("oo"))
        .prefer(PreferReturnEnum.OPERATION_OUTCOME).execute()));
    call("create with representation", () -> outcome(client.create().resource(patient("rep"))
        .prefer(PreferReturnEnum.REPRESENTATION).execute()));
    call("read", () -> client.read().resource(Patient.class).withId(patientId).execute().getNameFirstRep().getFamily());
    call("read as XML", () -> client.read().resource(Patient.class).withId(patientId).encodedXml().execute()
        .getNameFirstRep().getFamily());
    call("read by type name", () -> client.read().resource("Patient").withId(patientId).execute().fhirType());
    call("read by address", () -> client.read().resource(Patient.class)
        .withUrl(client.getServerBase() + "/Patient/" + patientId).execute().getActive());
    call("read a version", () -> client.read().resource(Patient.class).withIdAndVersion(patientId, "1").execute()
        .getMeta().getVersionId());
    call("read if changed", () -> client.read().resource(Patient.class).withId(patientId).ifVersionMatches("1")
        .returnNull().execute());
    call("read a summary", () -> client.read().resource(Patient.class).withId(patientId).summaryMode(SummaryEnum.TRUE)
        .execute().getMeta().getTag().size());
    call("read elements", () -> client.read().resource(Patient.class).withId(patientId).elementsSubset("birthDate")
        .execute().hasName());
    call("update", () -> {
      Patient found = client.read().resource(Patient.class).withId(patientId).execute();
      found.addTelecom().setValue("555");
      return outcome(client.update().resource(found).execute());
    });
    call("update without change", () -> {
      Patient found = client.read().resource(Patient.class).withId(patientId).execute();
      return outcome(client.update().resource(found).execute());
    });
    call("update under a new id", () -> {
      Patient made = patient("own");
      made.setId("own-" + run);
      return outcome(client.update().resource(made).execute());
    });
    call("update as XML", () -> {
      Patient made = patient("own");
      made.setId("own-" + run);
      made.setActive(false);
      return outcome(client.update().resource(made).encodedXml().prefer(PreferReturnEnum.OPERATION_OUTCOME).execute());
    });
    refused("update of an old version", () -> {
      AdditionalRequestHeadersInterceptor header = new AdditionalRequestHeadersInterceptor();
      header.addHeaderValue("If-Match", "W/\"1\"");
      client.registerInterceptor(header);
      try {
        return client.update().resource(patient("own").setId("Patient/own-" + run)).execute();
      } finally {
        client.unregisterInterceptor(header);
      }
    });
    call("delete", () -> outcome(client.delete().resourceById("Patient", "own-" + run).execute()));
    call("delete again", () -> outcome(client.delete().resourceById("Patient", "own-" + run).execute()));
    refused("read what is deleted", () -> client.read().resource(Patient.class).withId("own-" + run).execute());
    refused("read what never was", () -> client.read().resource(Patient.class).withId("none-" + run).execute());
    refused("read an unknown number", () -> client.read().resource(Patient.class).withId("999999999").execute());
    refused("create with a lost reference", () -> {
      Observation made = observation("lost", 1, "2023-01-01");
      return client.create().resource(made.setSubject(new Reference("Patient/none-" + run))).execute();
    });
  }

  static void conditional() {
    String query = "Patient?identifier=" + SYSTEM + "|" + run;
    call("create if none exists", () -> outcome(client.create().resource(patient("cond")).conditional()
        .where(Patient.IDENTIFIER.exactly().systemAndIdentifier(SYSTEM, run + "cond")).execute()));
    call("create if none exists, again", () -> outcome(client.create().resource(patient("cond"))
        .conditionalByUrl(query + "cond").execute()));
    call("update where", () -> outcome(client.update().resource(patient("cond").setActive(false)).conditional()
        .where(Patient.IDENTIFIER.exactly().systemAndIdentifier(SYSTEM, run + "cond")).execute()));
    call("update where none is", () -> outcome(client.update().resource(patient("cond2"))
        .conditionalByUrl(query + "cond2").execute()));
    refused("update where several are", () -> client.update().resource(patient("cond"))
        .conditionalByUrl("Patient?family=" + run + "cond").execute());
    call("delete where", () -> outcome(client.delete().resourceConditionalByUrl(query + "cond2").execute()));
    call("delete where none is", () -> outcome(client.delete().resourceConditionalByType("Patient")
        .where(Patient.IDENTIFIER.exactly().systemAndIdentifier(SYSTEM, run + "cond2")).execute()));
    refused("delete where several are", () -> client.delete()
        .resourceConditionalByUrl("Patient?family=" + run).execute());
  }

  static void patches() {
    call("JSON patch", () -> outcome(client.patch()
        .withBody("[{\"op\":\"replace\",\"path\":\"/active\",\"value\":false}]").withId("Patient/" + patientId).execute()));
    call("JSON patch where", () -> outcome(client.patch()
        .withBody("[{\"op\":\"add\",\"path\":\"/gender\",\"value\":\"female\"}]").conditional("Patient")
        .where(Patient.IDENTIFIER.exactly().systemAndIdentifier(SYSTEM, run + "cond")).execute()));
    call("FHIRPath patch", () -> {
      Parameters patch = new Parameters();
      Parameters.ParametersParameterComponent operation = patch.addParameter().setName("operation");
      operation.addPart().setName("type").setValue(new CodeType("replace"));
      operation.addPart().setName("path").setValue(new StringType("Patient.birthDate"));
      operation.addPart().setName("value").setValue(new org.hl7.fhir.r4.model.DateType("1981-01-01"));
      return outcome(client.patch().withFhirPatch(patch).withId("Patient/" + patientId).execute());
    });
    call("what the patches left", () -> {
      Patient found = client.read().resource(Patient.class).withId(patientId).execute();
      return found.getActive() + " " + found.getBirthDateElement().asStringValue() + " " + found.getMeta().getVersionId();
    });
    refused("JSON patch that does not fit", () -> client.patch()
        .withBody("[{\"op\":\"remove\",\"path\":\"/photo\"}]").withId("Patient/" + patientId).execute());
  }

  static void histories() {
    call("history of one", () -> count(client.history().onInstance(new IdType("Patient", patientId))
        .returnBundle(Bundle.class).execute()));
    call("history of one, as XML", () -> count(client.history().onInstance(new IdType("Patient", patientId))
        .returnBundle(Bundle.class).encodedXml().execute()));
    call("history of one, two of it", () -> client.history().onInstance(new IdType("Patient", patientId))
        .returnBundle(Bundle.class).count(2).execute().getEntry().size());
    call("history of a type since", () -> client.history().onType(Patient.class).returnBundle(Bundle.class)
        .since(new InstantType("2099-01-01T00:00:00Z")).execute().getEntry().size());
    call("history of all, five of it", () -> client.history().onServer().returnBundle(Bundle.class).count(5).execute()
        .getEntry().size());
    call("history of what is deleted", () -> count(client.history().onInstance(new IdType("Patient", "own-" + run))
        .returnBundle(Bundle.class).execute()));
  }

  static Bundle bundle(Bundle.BundleType type) {
    Bundle bundle = new Bundle().setType(type);
    bundle.addEntry().setFullUrl("urn:uuid:7c0d1a2e-0000-4000-8000-000000000001").setResource(patient("tx"))
        .getRequest().setMethod(Bundle.HTTPVerb.POST).setUrl("Patient");
    Observation made = observation("tx", 1, "2023-05-05");
    made.setSubject(new Reference("urn:uuid:7c0d1a2e-0000-4000-8000-000000000001"));
    if (type == Bundle.BundleType.TRANSACTION) {
      bundle.addEntry().setResource(made).getRequest().setMethod(Bundle.HTTPVerb.POST).setUrl("Observation");
    }
    bundle.addEntry().getRequest().setMethod(Bundle.HTTPVerb.GET).setUrl("Patient/" + patientId);
    return bundle;
  }

  static String statuses(Bundle bundle) {
    return bundle.getType() + " " + bundle.getEntry().stream().map(one -> one.getResponse().getStatus()).toList();
  }

  static void bundles() {
    call("transaction", () -> statuses(client.transaction().withBundle(bundle(Bundle.BundleType.TRANSACTION)).execute()));
    call("transaction as XML", () -> statuses(client.transaction().withBundle(bundle(Bundle.BundleType.TRANSACTION)).encodedXml().execute()));
    call("transaction of resources", () -> client.transaction()
        .withResources(List.<IBaseResource>of(patient("tr1"), patient("tr2"))).execute().size());
    call("batch", () -> statuses(client.transaction().withBundle(bundle(Bundle.BundleType.BATCH)).execute()));
    refused("transaction that fails", () -> {
      Bundle bundle = bundle(Bundle.BundleType.TRANSACTION);
      bundle.addEntry().getRequest().setMethod(Bundle.HTTPVerb.GET).setUrl("Nosuch/1");
      return client.transaction().withBundle(bundle).execute();
    });
    call("gzip", () -> {
      GZipContentInterceptor packed = new GZipContentInterceptor();
      client.registerInterceptor(packed);
      try {
        return outcome(client.create().resource(patient("gzip")).execute());
      } finally {
        client.unregisterInterceptor(packed);
      }
    });
  }

  static void operations() {
    IdType id = new IdType("Patient", patientId);
    call("$everything", () -> count(client.operation().onInstance(id).named("$everything")
        .withNoParameters(Parameters.class).returnResourceType(Bundle.class).execute()));
    call("$everything by GET", () -> count(client.operation().onInstance(id).named("$everything")
        .withNoParameters(Parameters.class).useHttpGet().returnResourceType(Bundle.class).execute()));
    call("$everything, five of it", () -> (client.operation().onInstance(id).named("$everything")
        .withParameter(Parameters.class, "_count", new org.hl7.fhir.r4.model.IntegerType(5))
        .returnResourceType(Bundle.class).execute()).getEntry().size());
    call("$validate", () -> outcome(client.validate().resource(patient("valid")).execute()));
    call("$validate as XML", () -> outcome(client.validate().resource(patient("valid")).encodedXml().execute()));
    call("$meta of all", () -> client.meta().get(Meta.class).fromServer().execute().getTag().size());
    call("$meta-add", () -> client.meta().add().onResource(id)
        .meta(new Meta().addTag("http://example.org", run, "x")).execute().getTag().size());
    call("$meta of one", () -> client.meta().get(Meta.class).fromResource(id).execute().getTagFirstRep().getCode());
    call("$meta of a type", () -> client.meta().get(Meta.class).fromType("Patient").execute().getTag().stream()
        .anyMatch(tag -> tag.getCode().equals(run)));
    call("by tag", () -> count(Searches.search("Patient").withTag("http://example.org", run).execute()));
    call("$meta-delete", () -> client.meta().delete().onResource(id)
        .meta(new Meta().addTag("http://example.org", run, "x")).execute().getTag().size());
    call("$get-resource-counts", () -> client.operation().onServer().named("$get-resource-counts")
        .withNoParameters(Parameters.class).useHttpGet().execute().hasParameter());
    call("$lastn", () -> count(client.operation().onType("Observation").named("$lastn")
        .withParameter(Parameters.class, "subject", new StringType("Patient/" + patientId))
        .andParameter("max", new org.hl7.fhir.r4.model.IntegerType(2)).useHttpGet().returnResourceType(Bundle.class).execute()));
    call("$lookup", () -> client.operation().onType("CodeSystem").named("$lookup")
        .withParameter(Parameters.class, "system", new org.hl7.fhir.r4.model.UriType("http://hl7.org/fhir/administrative-gender"))
        .andParameter("code", new CodeType("female")).execute().getParameter("display").getValue().primitiveValue());
    call("$expand", () -> client.operation().onType("ValueSet").named("$expand")
        .withParameter(Parameters.class, "url", new org.hl7.fhir.r4.model.UriType("http://hl7.org/fhir/ValueSet/administrative-gender"))
        .returnResourceType(org.hl7.fhir.r4.model.ValueSet.class).execute().getExpansion().getContains().size());
    refused("an unknown operation", () -> client.operation().onInstance(id).named("$nosuch")
        .withNoParameters(Parameters.class).execute());
    call("binary", () -> {
      org.hl7.fhir.r4.model.Binary made = new org.hl7.fhir.r4.model.Binary();
      made.setContentType("text/plain").setData("hello".getBytes());
      IdType made_id = (IdType) client.create().resource(made).execute().getId();
      return new String(client.read().resource(org.hl7.fhir.r4.model.Binary.class).withId(made_id.getIdPart()).execute().getData());
    });
    call("without encoding", () -> {
      client.setEncoding(EncodingEnum.XML);
      try {
        return client.read().resource(Patient.class).withId(patientId).execute().getNameFirstRep().getFamily();
      } finally {
        client.setEncoding(null);
      }
    });
  }
}
