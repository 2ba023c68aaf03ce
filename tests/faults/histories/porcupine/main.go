// Checks histories with Porcupine, a checker of linearizability that is not part of Ousel.
//
// It reads groups of accounts as lines of JSON, as history.py writes them, and looks for an order
// of all operations of a group that explains every answer. It prints the numbers of the groups
// for which there is none.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Action    string          `json:"action"`
	Account   string          `json:"account"`
	Invoked   float64         `json:"invoked"`
	Returned  float64         `json:"returned"`
	Outcome   string          `json:"outcome"`
	Intent    string          `json:"intent"`
	Recipient string          `json:"recipient"`
	Amount    int64           `json:"amount"`
	Result    json.RawMessage `json:"result"`
}

type entry struct {
	Intent string `json:"intent"`
}

type group struct {
	Number     int                `json:"number"`
	Operations []operation        `json:"operations"`
	Opening    map[string]int64   `json:"opening"`
	Entries    map[string][]entry `json:"entries"`
}

// state is the balances of a group's two accounts, and one byte for each intent: '1' once it moved
// money. Two states can be compared with ==.
type state struct {
	balances [2]int64
	moved    string
}

// input is an operation with its accounts and its intent as numbers.
type input struct {
	operation
	account, recipient, intent int
	balance                    int64
}

func (s state) after(in input) state {
	s.balances[in.account] -= in.Amount
	s.balances[in.recipient] += in.Amount
	s.moved = s.moved[:in.intent] + "1" + s.moved[in.intent+1:]
	return s
}

func (o operation) hasResult() bool {
	return len(o.Result) > 0 && string(o.Result) != "null"
}

// step says whether an answer is possible in a state, and which state follows it.
func step(s state, in input) (bool, state) {
	if in.Action == "balance" {
		return s.balances[in.account] == in.balance, s
	}
	moved := s.moved[in.intent] == '1'
	if in.Action == "lookup" {
		return moved == in.hasResult(), s
	}
	affordable := s.balances[in.account] >= in.Amount
	switch {
	case moved:
		return in.Outcome == "unknown" || in.hasResult(), s
	case in.hasResult() || in.Outcome == "unknown":
		if affordable {
			return true, s.after(in)
		}
		return in.Outcome == "unknown", s
	default:
		return !affordable, s
	}
}

func model(opening state) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return opening },
		Step: func(s, in, _ interface{}) (bool, interface{}) {
			return step(s.(state), in.(input))
		},
	}
}

// read numbers a group's accounts and intents, and leaves out the operations that say nothing. A
// transfer without an answer may take effect at any later time if the ledger has it in the end.
func read(g group) (state, []porcupine.Operation) {
	const never = int64(1) << 62
	accounts, intents, executed := map[string]int{}, map[string]int{}, map[string]bool{}
	opening := state{}
	for account, balance := range g.Opening {
		accounts[account] = len(accounts)
		opening.balances[accounts[account]] = balance
		for _, each := range g.Entries[account] {
			executed[each.Intent] = true
		}
	}
	var kept []porcupine.Operation
	for client, o := range g.Operations {
		pending := o.Action == "transfer" && o.Outcome == "unknown" && executed[o.Intent]
		if o.Action == "charge" || (o.Outcome != "ok" && !pending) {
			continue
		}
		if _, numbered := intents[o.Intent]; !numbered {
			intents[o.Intent] = len(intents)
		}
		in := input{
			operation: o, account: accounts[o.Account],
			recipient: accounts[o.Recipient], intent: intents[o.Intent],
		}
		if o.Action == "balance" {
			if err := json.Unmarshal(o.Result, &in.balance); err != nil {
				panic(err)
			}
		}
		returned := int64(o.Returned * 1e9)
		if pending {
			returned = never
		}
		kept = append(kept, porcupine.Operation{
			ClientId: client, Input: in, Call: int64(o.Invoked * 1e9), Return: returned,
		})
	}
	opening.moved = strings.Repeat("0", len(intents))
	return opening, kept
}

func main() {
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	for decoder.More() {
		var g group
		if err := decoder.Decode(&g); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		opening, operations := read(g)
		verdict := porcupine.CheckOperationsTimeout(model(opening), operations, time.Minute)
		fmt.Printf("%d %s\n", g.Number, verdict)
	}
}
