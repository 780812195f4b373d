// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"slices"
)

// Known is what is known when Ironic answers about a host.
type Known struct {
	// Secrets must not be shown.
	Secrets []string
	// Written are texts that users wrote themselves, such as URLs: see [Secrets].
	Written []string
}

// Source returns what is known. It is asked only when Ironic has said something, since it reads Secrets. After an error,
// what Ironic has said is withheld.
type Source func(context.Context) (Known, error)

type sourcesKey struct{}

// With returns a context for requests about a host. Errors of Ironic that answer them do not have the secrets of the source
// in them, whoever shows them.
func With(ctx context.Context, source Source) context.Context {
	return context.WithValue(ctx, sourcesKey{}, append(slices.Clip(sourcesOf(ctx)), source))
}

func sourcesOf(ctx context.Context) []Source {
	sources, _ := ctx.Value(sourcesKey{}).([]Source)
	return sources
}

// Withheld begins the replacement of words that may quote a secret, when it is not known. The reason follows.
const Withheld = "withheld, as it may quote a password: "

// Words strikes the secrets out of Ironic's words that the context knows of, and those that were sent.
func Words(ctx context.Context, message string, sent ...string) string {
	Texts(ctx, []*string{&message}, sent...)
	return message
}

// Texts is Words for several texts.
func Texts(ctx context.Context, texts []*string, sent ...string) {
	if !slices.ContainsFunc(texts, func(text *string) bool { return *text != "" }) {
		return
	}
	all := Known{Secrets: slices.Clip(sent)}
	var unknown error
	for _, source := range sourcesOf(ctx) {
		known, err := source(ctx)
		if err != nil {
			unknown = err
			break
		}
		all.Secrets, all.Written = append(all.Secrets, known.Secrets...), append(all.Written, known.Written...)
	}
	secrets := newSpeller(all.Secrets)
	for _, text := range texts {
		switch {
		case *text == "":
		case unknown != nil:
			*text = Withheld + unknown.Error()
		default:
			*text = hideSecrets(*text, secrets, all.Written)
		}
	}
}
