// Runs a partner's typical calls with the Kotlin client that openapi-generator generates.
import com.fasterxml.jackson.databind.ObjectMapper
import java.io.IOException
import java.math.BigDecimal
import java.time.Duration
import okhttp3.HttpUrl.Companion.toHttpUrl
import okhttp3.OkHttpClient
import org.openapitools.client.apis.DefaultApi
import org.openapitools.client.infrastructure.ClientError
import org.openapitools.client.infrastructure.ClientException
import org.openapitools.client.infrastructure.ServerException
import org.openapitools.client.models.*

const val ATTEMPTS_MAX = 5
val report = LinkedHashMap<String, Any?>()
lateinit var options: Map<String, String>

fun main(arguments: Array<String>) {
    @Suppress("UNCHECKED_CAST")
    options = ObjectMapper().readValue(arguments[0], Map::class.java) as Map<String, String>
    val api = connectAs(option("key"))
    sendTransfer(api)
    collectCharge(api)
    connectPerson()
    println(ObjectMapper().writeValueAsString(report))
}

fun option(name: String): String = options.getValue(name)

fun connectAs(credential: String?): DefaultApi {
    val client = OkHttpClient.Builder().retryOnConnectionFailure(false)
    client.readTimeout(Duration.ofSeconds(30)) // longer than `wait=20`
    client.addInterceptor { chain ->
        val request = chain.request().newBuilder()
        if (credential != null) request.header("Authorization", "Bearer $credential")
        chain.proceed(request.build())
    }
    return DefaultApi(option("baseUrl"), client.build())
}

/** Sends the same request again, with the same key, until there is an answer. */
fun sendTransfer(api: DefaultApi) {
    val wanted = TransferRequest(to = "@grace", amount = BigDecimal(option("amount")))
    for (attempt in 1..ATTEMPTS_MAX) {
        try {
            val transfer = api.createTransfer(wanted, option("reference"))
            report["attempts"] = attempt
            report["transfer"] = transfer.id
            report["amount"] = transfer.amount
            report["kind"] = transfer.kind.value
            break
        } catch (lost: IOException) {
            continue
        } catch (failed: ServerException) {
            continue
        }
    }
    try {
        api.createTransfer(TransferRequest(to = "@nobody_at_all", amount = BigDecimal.ONE))
    } catch (refusal: ClientException) {
        val body = (refusal.response as ClientError<*>).body as String
        report["refusal"] = ObjectMapper().readTree(body)["code"].asText()
    }
}

fun collectCharge(api: DefaultApi) {
    val amount = BigDecimal("9.90")
    var charge = api.createCharge(ChargeRequest(amount = amount))
    api.fundSandboxAccount(FundRequest(to = "@ada", amount = amount))
    api.paySandboxCharge(charge.id, PayRequest(payer = "@ada"))
    while (charge.status == ChargeRecord.Status.created) {
        charge = api.getCharge(charge.id, prefer = "wait=20")
    }
    report["charge"] = charge.status.value
    report["paidBy"] = charge.paidBy!!.username
}

fun connectPerson() {
    val address = "${option("portalUrl")}/connect".toHttpUrl().newBuilder()
        .addQueryParameter("client_id", option("clientId"))
        .addQueryParameter("redirect_uri", option("redirectUri"))
        .addQueryParameter("scope", "profile balance")
        .addQueryParameter("state", "journey")
    println("Open ${address.build()}")
    val returned = readln().toHttpUrl()
    check(returned.queryParameter("state") == "journey")
    val token = connectAs(null).createUserToken(
        TokenRequest(
            grantType = "authorization_code",
            code = returned.queryParameter("code")!!,
            redirectUri = option("redirectUri"),
            clientId = option("clientId"),
            clientSecret = option("key"),
        )
    )
    val user = connectAs(token.accessToken)
    report["scope"] = token.scope
    report["username"] = user.getUser().username
    report["available"] = user.getUserBalance().available
}
