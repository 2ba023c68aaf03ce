// Runs a partner's typical calls with the client that oapi-codegen generates.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"

	"example.com/journey/ousel"
)

const attemptsMax = 5

var options struct {
	BaseURL, PortalURL, Key, ClientID, RedirectURI, Reference, Amount string // encoding/json ignores the case of names
}

func main() {
	check(json.Unmarshal([]byte(os.Args[1]), &options))
	client := connectAs(options.Key)
	report := map[string]any{}
	sendTransfer(client, report)
	collectCharge(client, report)
	connectPerson(client, report)
	printed, err := json.Marshal(report)
	check(err)
	fmt.Println(string(printed))
}

func connectAs(credential string) *ousel.ClientWithResponses {
	client, err := ousel.NewClientWithResponses(options.BaseURL, ousel.WithRequestEditorFn(
		func(_ context.Context, request *http.Request) error {
			request.Header.Set("Authorization", "Bearer "+credential)
			return nil
		}))
	check(err)
	return client
}

// sendTransfer sends the same request again, with the same key, until there is an answer.
func sendTransfer(client *ousel.ClientWithResponses, report map[string]any) {
	parameters := &ousel.CreateTransferParams{IdempotencyKey: &options.Reference}
	body := ousel.TransferRequest{To: "@grace", Amount: json.Number(options.Amount)}
	for attempt := 1; attempt <= attemptsMax; attempt++ {
		answer, err := client.CreateTransferWithResponse(context.Background(), parameters, body)
		if err != nil || answer.StatusCode() >= 500 {
			continue
		}
		transfer := answer.JSON200 // a replay
		if transfer == nil {
			log.Fatal("not a replay: ", answer.Status())
		}
		report["attempts"], report["transfer"] = attempt, transfer.Id
		report["amount"], report["kind"] = transfer.Amount, transfer.Kind
		break
	}
	nobody := ousel.TransferRequest{To: "@nobody_at_all", Amount: "1"}
	refused, err := client.CreateTransferWithResponse(context.Background(), nil, nobody)
	check(err)
	report["refusal"] = refused.ApplicationproblemJSON404.Code
}

func collectCharge(client *ousel.ClientWithResponses, report map[string]any) {
	ctx := context.Background()
	created, err := client.CreateChargeWithResponse(ctx, nil, ousel.ChargeRequest{
		Amount: "9.90"})
	check(err)
	id := created.JSON201.Id
	_, err = client.FundSandboxAccountWithResponse(ctx, ousel.FundRequest{To: "@ada", Amount: "9.90"})
	check(err)
	_, err = client.PaySandboxChargeWithResponse(ctx, id, ousel.PayRequest{Payer: "@ada"})
	check(err)
	wait := "wait=20"
	charge := created.JSON201
	for charge.Status == ousel.ChargeRecordStatusCreated {
		polled, err := client.GetChargeWithResponse(ctx, id, &ousel.GetChargeParams{Prefer: &wait})
		check(err)
		charge = polled.JSON200
	}
	report["charge"], report["paidBy"] = charge.Status, charge.PaidBy.Username
}

func connectPerson(client *ousel.ClientWithResponses, report map[string]any) {
	query := url.Values{"client_id": {options.ClientID}, "redirect_uri": {options.RedirectURI},
		"scope": {"profile balance"}, "state": {"journey"}}
	fmt.Printf("Open %s/connect?%s\n", options.PortalURL, query.Encode())
	typed := bufio.NewScanner(os.Stdin)
	typed.Scan()
	returned, err := url.Parse(typed.Text())
	check(err)
	if returned.Query().Get("state") != "journey" {
		log.Fatal("the state is wrong")
	}
	ctx := context.Background()
	token, err := client.CreateUserTokenWithResponse(ctx, ousel.TokenRequest{
		GrantType: "authorization_code", Code: returned.Query().Get("code"),
		RedirectUri: options.RedirectURI, ClientId: &options.ClientID, ClientSecret: &options.Key,
	}, withoutCredential)
	check(err)
	user := connectAs(token.JSON200.AccessToken)
	person, err := user.GetUserWithResponse(ctx)
	check(err)
	balance, err := user.GetUserBalanceWithResponse(ctx)
	check(err)
	report["scope"], report["username"] = token.JSON200.Scope, person.JSON200.Username
	report["available"] = balance.JSON200.Available
}

func withoutCredential(_ context.Context, request *http.Request) error {
	request.Header.Del("Authorization")
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
