// An app on oauth4webapi: says where to send the person, then reads where the person came back to.
import { createInterface } from "node:readline";
import * as oauth from "oauth4webapi";

const [issuer, clientId, key, redirectUri, baseUrl] = process.argv.slice(1);
const loopback = { [oauth.allowInsecureRequests]: true };
const client = { client_id: clientId };
const authentication = oauth.ClientSecretBasic(key);

const server = await oauth.processDiscoveryResponse(
  new URL(issuer),
  await oauth.discoveryRequest(new URL(issuer), { algorithm: "oauth2", ...loopback }),
);
const verifier = oauth.generateRandomCodeVerifier();
const state = oauth.generateRandomState();
const asked = new URL(server.authorization_endpoint);
for (const [name, value] of Object.entries({
  client_id: clientId,
  redirect_uri: redirectUri,
  response_type: "code",
  scope: "profile balance",
  state,
  code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
})) {
  asked.searchParams.set(name, value);
}
say({ asked: asked.href });

for await (const line of createInterface({ input: process.stdin })) {
  try {
    say(await finished(new URL(line)));
  } catch (error) {
    say({ refused: `${error.error ?? error.code}: ${error.message}` });
  }
}

async function finished(returned) {
  const parameters = oauth.validateAuthResponse(server, client, returned, state);
  const token = await oauth.processAuthorizationCodeResponse(
    server,
    client,
    await oauth.authorizationCodeGrantRequest(
      server,
      client,
      authentication,
      parameters,
      redirectUri,
      verifier,
      loopback,
    ),
  );
  const profile = await read("/user/me", token.access_token);
  const balance = await read("/user/balance", token.access_token);
  await oauth.processRevocationResponse(
    await oauth.revocationRequest(server, client, authentication, token.access_token, loopback),
  );
  return {
    username: profile.username,
    currency: balance.currency,
    scope: token.scope,
    lifetime: token.expires_in,
    after: await read("/user/me", token.access_token).catch((error) => error.response.status),
  };
}

async function read(path, token) {
  const address = new URL(`${baseUrl}${path}`);
  const answer = await oauth.protectedResourceRequest(
    token,
    "GET",
    address,
    undefined,
    undefined,
    loopback,
  );
  return answer.json();
}

function say(value) {
  console.log(JSON.stringify(value));
}
