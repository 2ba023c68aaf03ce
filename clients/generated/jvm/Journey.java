// Runs a partner's typical calls with the Java client that openapi-generator generates.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.DefaultApi;
import org.openapitools.client.model.*;

public final class Journey {
  private static final int ATTEMPTS_MAX = 5;
  private static final Map<String, Object> report = new LinkedHashMap<>();
  private static JsonNode options;

  public static void main(String[] arguments) throws Exception {
    options = new ObjectMapper().readTree(arguments[0]);
    DefaultApi api = connectAs(option("key"));
    sendTransfer(api);
    collectCharge(api);
    connectPerson();
    System.out.println(new ObjectMapper().writeValueAsString(report));
  }

  private static String option(String name) {
    return options.get(name).asText();
  }

  private static DefaultApi connectAs(String credential) {
    ApiClient client = new ApiClient();
    client.updateBaseUri(option("baseUrl"));
    if (credential != null) {
      client.setRequestInterceptor(
          request -> request.header("Authorization", "Bearer " + credential));
    }
    return new DefaultApi(client);
  }

  /** Sends the same request again, with the same key, until there is an answer. */
  private static void sendTransfer(DefaultApi api) throws ApiException {
    var wanted = new TransferRequest().to("@grace").amount(new BigDecimal(option("amount")));
    for (int attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      try {
        TransferRecord transfer = api.createTransfer(wanted, option("reference"));
        report.put("attempts", attempt);
        report.put("transfer", transfer.getId());
        report.put("amount", transfer.getAmount());
        report.put("kind", transfer.getKind().getValue());
        break;
      } catch (ApiException error) {
        if (error.getCode() != 0 && error.getCode() < 500) throw error;
      }
    }
    try {
      api.createTransfer(new TransferRequest().to("@nobody_at_all").amount(BigDecimal.ONE), null);
    } catch (ApiException error) {
      report.put("refusal", error.getResponseBody().replaceAll(".*\"code\":\"(\\w+)\".*", "$1"));
    }
  }

  private static void collectCharge(DefaultApi api) throws ApiException {
    var amount = new BigDecimal("9.90");
    ChargeRecord charge = api.createCharge(new ChargeRequest().amount(amount), null);
    api.fundSandboxAccount(new FundRequest().to("@ada").amount(amount));
    api.paySandboxCharge(charge.getId(), new PayRequest().payer("@ada"));
    while (charge.getStatus() == ChargeRecord.StatusEnum.CREATED) {
      charge = api.getCharge(charge.getId(), null, "wait=20");
    }
    report.put("charge", charge.getStatus().getValue());
    report.put("paidBy", charge.getPaidBy().getUsername());
  }

  private static void connectPerson() throws Exception {
    System.out.printf(
        "Open %s/connect?client_id=%s&redirect_uri=%s&scope=profile%%20balance&state=journey%n",
        option("portalUrl"), option("clientId"), encoded(option("redirectUri")));
    var typed = new BufferedReader(new InputStreamReader(System.in)).readLine();
    Map<String, String> returned =
        Arrays.stream(URI.create(typed).getRawQuery().split("&"))
            .map(pair -> pair.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> decoded(pair[1])));
    if (!returned.get("state").equals("journey")) throw new IllegalStateException("wrong state");
    TokenRecord token =
        connectAs(null)
            .createUserToken(
                new TokenRequest()
                    .grantType("authorization_code")
                    .code(returned.get("code"))
                    .redirectUri(option("redirectUri"))
                    .clientId(option("clientId"))
                    .clientSecret(option("key")));
    DefaultApi user = connectAs(token.getAccessToken());
    report.put("scope", token.getScope());
    report.put("username", user.getUser().getUsername());
    report.put("available", user.getUserBalance().getAvailable());
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }

  private static String decoded(String text) {
    return URLDecoder.decode(text, StandardCharsets.UTF_8);
  }
}
