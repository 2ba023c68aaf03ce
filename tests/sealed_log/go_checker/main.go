// Checks what Ousel made with Go's own packages, and prints what it made of the same leaves.
// Input: one JSON object. Output: one JSON object, or a line on standard error and exit code 1.
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type input struct {
	Key, PrivateKey string
	Checkpoints     []string // signed notes
	Leaves          [][]byte
	Inclusions      []proof // of leaf Old in the tree of size New
	Consistencies   []proof // of the trees of sizes Old and New
}

type proof struct {
	Old, New int64
	Hashes   [][]byte
}

type output struct {
	Note  string            // a note that Go signed
	Tiles map[string][]byte // by path
	Texts []string          // of the checkpoints
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func hashes(list [][]byte) (result []tlog.Hash) {
	for _, each := range list {
		result = append(result, tlog.Hash(each))
	}
	return result
}

func main() {
	var in input
	check(json.NewDecoder(os.Stdin).Decode(&in))
	verifier, err := note.NewVerifier(in.Key)
	check(err)
	signer, err := note.NewSigner(in.PrivateKey)
	check(err)

	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (list []tlog.Hash, err error) {
		for _, index := range indexes {
			list = append(list, stored[index])
		}
		return list, nil
	})
	for n, leaf := range in.Leaves {
		added, err := tlog.StoredHashes(int64(n), leaf, reader)
		check(err)
		stored = append(stored, added...)
	}
	root := func(size int64) tlog.Hash {
		hash, err := tlog.TreeHash(size, reader)
		check(err)
		return hash
	}

	var out output
	for _, signed := range in.Checkpoints {
		opened, err := note.Open([]byte(signed), note.VerifierList(verifier))
		check(err)
		lines := strings.Split(opened.Text, "\n")
		var size int64
		_, err = fmt.Sscan(lines[1], &size)
		check(err)
		if hash := root(size); lines[2] != base64.StdEncoding.EncodeToString(hash[:]) {
			log.Fatalf("the tree of size %d has another root", size)
		}
		out.Texts = append(out.Texts, opened.Text)
	}
	for _, each := range in.Inclusions {
		leaf := tlog.RecordHash(in.Leaves[each.Old])
		check(tlog.CheckRecord(hashes(each.Hashes), each.New, root(each.New), each.Old, leaf))
	}
	for _, each := range in.Consistencies {
		check(tlog.CheckTree(hashes(each.Hashes), each.New, root(each.New), each.Old, root(each.Old)))
	}
	out.Tiles = map[string][]byte{}
	for _, tile := range tlog.NewTiles(8, 0, int64(len(in.Leaves))) {
		data, err := tlog.ReadTileData(tile, reader)
		check(err)
		out.Tiles[tile.Path()] = data
	}
	signed, err := note.Sign(&note.Note{Text: "signed by Go\n"}, signer)
	check(err)
	out.Note = string(signed)
	check(json.NewEncoder(os.Stdout).Encode(out))
}
