//! The tree of an expression becomes a verdict.

use std::{cmp::Ordering, ops::Range};

use serde_json::Value;

use super::{
    Expression, Verdict,
    operand::{Number, Operand},
    parse::{Comparison, Node, Term},
};

pub(super) fn evaluate<'a>(
    expression: &'a Expression,
    lookup: impl Fn(&str) -> Option<&'a Value>,
) -> Verdict {
    let mut run = Run {
        expression,
        lookup,
        warnings: Vec::new(),
    };
    let value = run.settled(&expression.root).is_truthy();
    let warnings = run.warnings;
    Verdict { value, warnings }
}

struct Run<'a, L> {
    expression: &'a Expression,
    lookup: L,
    warnings: Vec<String>,
}

/// Why a value could not be made, in words.
struct Senseless(String);

impl<'a, L: Fn(&str) -> Option<&'a Value>> Run<'a, L> {
    /// The value of a term, where one that makes no sense counts as false.
    fn settled(&mut self, term: &'a Term) -> Operand<'a> {
        self.value(term)
            .unwrap_or_else(|reason| self.warn(term.span.clone(), reason))
    }

    /// The value of a term. What makes no sense is told to the comparison around it, if there is one.
    fn value(&mut self, term: &'a Term) -> Result<Operand<'a>, Senseless> {
        Ok(match &term.node {
            Node::Null => Operand::Null,
            Node::Bool(it) => Operand::Bool(*it),
            Node::Number(it) => Operand::Number(*it),
            Node::Text(it) => Operand::Text(it),
            Node::Variable(at) => self.variable(*at).map_or(Operand::Null, Operand::from),
            Node::List(terms) => Operand::List(self.values(terms)?),
            Node::Tuple(terms) => Operand::Tuple(self.values(terms)?),
            Node::Length(inner) => {
                let value = self.value(inner)?;
                match value.length() {
                    Some(length) => Operand::Number(Number::Integer(length as i128)),
                    None => {
                        return Err(Senseless(format!(
                            "{} has no length",
                            self.described(inner, &value)
                        )));
                    }
                }
            }
            Node::Not(inner) => Operand::Bool(!self.settled(inner).is_truthy()),
            Node::All(terms) => self.first(terms, |it| !it.is_truthy()),
            Node::Any(terms) => self.first(terms, |it| it.is_truthy()),
            Node::Compare(first, rest) => self.chain(first, rest),
        })
    }

    fn values(&mut self, terms: &'a [Term]) -> Result<Vec<Operand<'a>>, Senseless> {
        terms.iter().map(|it| self.value(it)).collect()
    }

    /// The first value that decides, or the last of all.
    fn first(&mut self, terms: &'a [Term], decides: impl Fn(&Operand<'_>) -> bool) -> Operand<'a> {
        let mut value = Operand::Null;
        for term in terms {
            value = self.settled(term);
            if decides(&value) {
                break;
            }
        }
        value
    }

    fn chain(&mut self, first: &'a Term, rest: &'a [(Comparison, Term)]) -> Operand<'a> {
        let mut left = first;
        let mut left_value = self.value(first);
        for (comparison, right) in rest {
            let compared = left_value.and_then(|a| {
                let b = self.value(right)?;
                match compare(*comparison, &a, &b) {
                    Some(holds) => Ok((holds, b)),
                    None => Err(self.senseless(*comparison, (left, &a), (right, &b))),
                }
            });
            match compared {
                Ok((true, b)) => left_value = Ok(b),
                Ok((false, _)) => return Operand::Bool(false),
                Err(reason) => return self.warn(left.span.start..right.span.end, reason),
            }
            left = right;
        }
        Operand::Bool(true)
    }

    fn variable(&self, at: usize) -> Option<&'a Value> {
        let (name, _) = &self.expression.variables[at];
        (self.lookup)(name)
    }

    fn senseless(
        &self,
        comparison: Comparison,
        left: (&Term, &Operand<'_>),
        right: (&Term, &Operand<'_>),
    ) -> Senseless {
        let left = self.described(left.0, left.1);
        let right = self.described(right.0, right.1);
        Senseless(match comparison {
            Comparison::In | Comparison::NotIn => format!("{left} cannot be in {right}"),
            _ => format!("{left} and {right} have no order"),
        })
    }

    /// A term as it was written and what it is.
    fn described(&self, term: &Term, value: &Operand<'_>) -> String {
        let written = &self.expression.text[term.span.clone()];
        match term.node {
            Node::Variable(at) if self.variable(at).is_none() => format!("`{written}` (not set)"),
            _ => format!("`{written}` ({})", value.kind()),
        }
    }

    fn warn(&mut self, span: Range<usize>, Senseless(reason): Senseless) -> Operand<'a> {
        let written = &self.expression.text[span];
        self.warnings
            .push(format!("`{written}` counts as false: {reason}"));
        Operand::Bool(false)
    }
}

/// Whether the comparison holds. `None`: it makes no sense.
fn compare(comparison: Comparison, a: &Operand<'_>, b: &Operand<'_>) -> Option<bool> {
    Some(match comparison {
        Comparison::Equal => a.equals(b),
        Comparison::NotEqual => !a.equals(b),
        Comparison::Less => a.order(b)? == Ordering::Less,
        Comparison::LessOrEqual => a.order(b)? != Ordering::Greater,
        Comparison::Greater => a.order(b)? == Ordering::Greater,
        Comparison::GreaterOrEqual => a.order(b)? != Ordering::Less,
        Comparison::In => b.contains(a)?,
        Comparison::NotIn => !b.contains(a)?,
        Comparison::Is => a.is(b),
        Comparison::IsNot => !a.is(b),
    })
}
