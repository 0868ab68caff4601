//! Facts about the sources that rules need, each with its place.
//!
//! Files are parsed as Rust, so that strings and comments are not counted. Of macros, only the tokens given to them are
//! seen: identifiers and `allow`, but neither functions nor their parameters.

use std::str::FromStr;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, FnArg, ImplItemFn, ItemFn, Pat, Signature, TraitItemFn};

use super::words::{WORDS, Word};
use super::{Location, Tree};

/// What a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// Lines of a function, by its name.
    FunctionLines,
    /// Lines of a file, by its path.
    FileLines,
    /// Parameters that are tuple patterns, by the function's name.
    TupleParameters,
    /// `allow` and `expect` without a reason, by the lint.
    AllowWithoutReason,
    /// Identifiers that contain a word that is being replaced, by the word.
    Words,
}

/// One occurrence of what a rule counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) rule: Rule,
    pub(super) key: String,
    /// Number of lines, or 1 for rules that count occurrences.
    pub(super) amount: usize,
    pub(super) place: Location,
}

/// Facts of all sources of the checkout.
pub(super) fn read(tree: &Tree) -> Result<Vec<Fact>> {
    let mut facts = Vec::new();
    for file in tree.files("crates", ".rs")? {
        let text = tree.read(&file)?;
        facts.extend(of_file(&file, &text).with_context(|| format!("{file} is not Rust"))?);
    }
    Ok(facts)
}

fn of_file(file: &str, text: &str) -> Result<Vec<Fact>> {
    let mut facts = Facts {
        file,
        words: WORDS
            .iter()
            .filter(|word| word.is_sought_in(text))
            .collect(),
        found: Vec::new(),
    };
    facts.add(Rule::FileLines, file, text.lines().count(), None);
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow::anyhow!("{error}"))?;
    facts.tokens(tokens);
    facts.visit_file(&syn::parse_file(text)?);
    Ok(facts.found)
}

struct Facts<'a> {
    file: &'a str,
    words: Vec<&'static Word>,
    found: Vec<Fact>,
}

impl Facts<'_> {
    fn add(&mut self, rule: Rule, key: &str, amount: usize, line: Option<usize>) {
        self.found.push(Fact {
            rule,
            key: key.to_owned(),
            amount,
            place: Location {
                file: self.file.to_owned(),
                line,
            },
        });
    }

    /// Notes identifiers and attributes, wherever they are.
    fn tokens(&mut self, tokens: TokenStream) {
        // Whether `#` or `#!` came before.
        let mut attribute = false;
        for token in tokens {
            match &token {
                TokenTree::Ident(identifier) => self.identifier(identifier),
                TokenTree::Group(group) => {
                    if attribute && group.delimiter() == Delimiter::Bracket {
                        self.attribute(group.stream());
                    }
                    self.tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            attribute = match &token {
                TokenTree::Punct(sign) => {
                    sign.as_char() == '#' || (attribute && sign.as_char() == '!')
                }
                _ => false,
            };
        }
    }

    fn identifier(&mut self, identifier: &Ident) {
        let text = identifier.to_string();
        let line = identifier.span().start().line;
        let found: Vec<&Word> = self
            .words
            .iter()
            .copied()
            .filter(|word| word.is_in(&text))
            .collect();
        for word in found {
            self.add(Rule::Words, word.text, 1, Some(line));
        }
    }

    /// Notes `allow(LINTS)` or `expect(LINTS)`, also inside `cfg_attr`.
    fn attribute(&mut self, tokens: TokenStream) {
        let mut before = None;
        for token in tokens {
            if let TokenTree::Group(group) = &token {
                match before.as_deref() {
                    Some("allow" | "expect") => self.lints(group.stream()),
                    _ => self.attribute(group.stream()),
                }
            }
            before = match token {
                TokenTree::Ident(identifier) => Some(identifier.to_string()),
                _ => None,
            };
        }
    }

    /// Notes lints that have no reason among them.
    fn lints(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_reason =
            |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "reason");
        if tokens.iter().any(is_reason) {
            return;
        }
        let line = tokens.first().map(|token| token.span().start().line);
        let text: String = tokens.iter().map(ToString::to_string).collect();
        for lint in text.split(',').filter(|lint| !lint.is_empty()) {
            self.add(Rule::AllowWithoutReason, lint, 1, line);
        }
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let name = signature.ident.to_string();
        let first = signature.span().start().line;
        let last = block.brace_token.span.close().end().line;
        self.add(Rule::FunctionLines, &name, last + 1 - first, Some(first));
        for input in &signature.inputs {
            if let FnArg::Typed(parameter) = input
                && is_tuple(&parameter.pat)
            {
                let line = parameter.span().start().line;
                self.add(Rule::TupleParameters, &name, 1, Some(line));
            }
        }
    }
}

fn is_tuple(pattern: &Pat) -> bool {
    match pattern {
        Pat::Tuple(_) => true,
        Pat::Reference(reference) => is_tuple(&reference.pat),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Facts<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
#![allow(dead_code)]
#![allow(missing_docs, reason = "an ABI")]
// Door in a comment, and "Door" in a string are nothing.
struct Door(&'static str);
#[cfg_attr(test, expect(clippy::all, unused))]
fn open(&(a, b): &(u8, u8), c: u8) {
    let text = "Door";
    looking!(Door);
}
trait T {
    fn of(self, (a, b): (u8, u8)) {}
    fn without();
}
"#;

    fn told(rule: Rule) -> Vec<(String, usize, Option<usize>)> {
        let facts = of_file("x.rs", SOURCE).unwrap();
        let of_rule = facts.into_iter().filter(|fact| fact.rule == rule);
        of_rule
            .map(|fact| (fact.key, fact.amount, fact.place.line))
            .collect()
    }

    fn fact(key: &str, amount: usize, line: usize) -> (String, usize, Option<usize>) {
        (key.to_owned(), amount, Some(line))
    }

    #[test]
    fn functions_are_counted_from_their_signature_to_their_brace() {
        assert_eq!(
            told(Rule::FunctionLines),
            [fact("open", 4, 7), fact("of", 1, 12)]
        );
        assert_eq!(told(Rule::FileLines)[0].1, 14);
    }

    #[test]
    fn tuples_in_the_place_of_parameters_are_seen() {
        assert_eq!(
            told(Rule::TupleParameters),
            [fact("open", 1, 7), fact("of", 1, 12)]
        );
    }

    #[test]
    fn an_allow_wants_a_reason() {
        let lints = told(Rule::AllowWithoutReason);
        let all = [
            fact("dead_code", 1, 2),
            fact("clippy::all", 1, 6),
            fact("unused", 1, 6),
        ];
        assert_eq!(lints, all);
    }

    #[test]
    fn words_are_identifiers_also_inside_macros() {
        let words = told(Rule::Words);
        let all = [
            fact("Door", 1, 5),
            fact("looking", 1, 9),
            fact("Door", 1, 9),
        ];
        assert_eq!(words, all);
    }
}
