//! Tokens become a tree. Each function reads one level of precedence, the loosest first.

use std::ops::Range;

use super::{
    ExpressionError, MAX_DEPTH,
    operand::Number,
    token::{self, NO_ARITHMETIC, Token, WHOLE},
};

/// A part of an expression, and the bytes it stands at.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) node: Node,
    pub(super) span: Range<usize>,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    /// By its place among the variables of the expression.
    Variable(usize),
    List(Vec<Term>),
    Tuple(Vec<Term>),
    Length(Box<Term>),
    Not(Box<Term>),
    All(Vec<Term>),
    Any(Vec<Term>),
    /// A chain: each comparison is between its term and the one before.
    Compare(Box<Term>, Vec<(Comparison, Term)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
    Is,
    IsNot,
}

type Parsed<T = Term> = Result<T, ExpressionError>;
type Variables = Vec<(String, Range<usize>)>;

pub(super) fn parse(text: &str) -> Parsed<(Term, Variables)> {
    let (token, span) = token::read(text, 0)?;
    if token == Token::End {
        let error = ExpressionError::new(0..text.len(), "an empty expression");
        return Err(error.help("write `True` for a condition that always holds"));
    }
    let mut parser = Parser {
        text,
        token,
        span,
        end: 0,
        depth: 0,
        variables: Vec::new(),
    };
    let root = parser.any()?;
    match parser.token {
        Token::End => Ok((root, parser.variables)),
        _ => Err(parser.not_an_operator("the end")),
    }
}

struct Parser<'t> {
    text: &'t str,
    /// The token to be read next, and where it stands.
    token: Token<'t>,
    span: Range<usize>,
    /// Where the token before it ends.
    end: usize,
    depth: usize,
    variables: Variables,
}

impl<'t> Parser<'t> {
    fn any(&mut self) -> Parsed {
        self.joined("or", Parser::all, Node::Any)
    }

    fn all(&mut self) -> Parsed {
        self.joined("and", Parser::negation, Node::All)
    }

    /// One or more parts with a word between them.
    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Parsed,
        node: fn(Vec<Term>) -> Node,
    ) -> Parsed {
        let first = part(self)?;
        if self.token != Token::Name(word) {
            return Ok(first);
        }
        let start = first.span.start;
        let mut terms = vec![first];
        while self.token == Token::Name(word) {
            self.advance()?;
            terms.push(part(self)?);
        }
        Ok(self.term(start, node(terms)))
    }

    fn negation(&mut self) -> Parsed {
        if self.token != Token::Name("not") {
            return self.comparison();
        }
        let start = self.span.start;
        self.advance()?;
        let inner = self.deeper(Parser::negation)?;
        Ok(self.term(start, Node::Not(Box::new(inner))))
    }

    fn comparison(&mut self) -> Parsed {
        let first = self.value()?;
        let start = first.span.start;
        let mut rest: Vec<(Comparison, Term)> = Vec::new();
        while let Some(comparison) = self.operator()? {
            let right = self.value()?;
            let left = rest.last().map_or(&first, |(_, term)| term);
            check_identity(comparison, [left, &right])?;
            rest.push((comparison, right));
        }
        match rest.is_empty() {
            true => Ok(first),
            false => Ok(self.term(start, Node::Compare(Box::new(first), rest))),
        }
    }

    fn operator(&mut self) -> Parsed<Option<Comparison>> {
        let comparison = match self.token {
            Token::Symbol("==") => Comparison::Equal,
            Token::Symbol("!=") => Comparison::NotEqual,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            Token::Name("in") => Comparison::In,
            Token::Name("is") => {
                self.advance()?;
                if self.token != Token::Name("not") {
                    return Ok(Some(Comparison::Is));
                }
                Comparison::IsNot
            }
            Token::Name("not") => {
                self.advance()?;
                if self.token != Token::Name("in") {
                    return Err(self.expected("`in` after `not`"));
                }
                Comparison::NotIn
            }
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(comparison))
    }

    fn value(&mut self) -> Parsed {
        let start = self.span.start;
        let node = match self.token.clone() {
            Token::Variable(name) => self.variable(name),
            Token::Text(text) => Node::Text(text),
            Token::Number(number) => Node::Number(number),
            Token::Name("True") => Node::Bool(true),
            Token::Name("False") => Node::Bool(false),
            Token::Name("None") => Node::Null,
            Token::Symbol("-") => {
                self.advance()?;
                match self.token {
                    Token::Number(number) => Node::Number(number.negative()),
                    _ => return Err(self.expected("a number after `-`").help(NO_ARITHMETIC)),
                }
            }
            Token::Name("len") => {
                self.advance()?;
                self.expect("(")?;
                let inner = self.deeper(Parser::any)?;
                self.at(")")?;
                Node::Length(Box::new(inner))
            }
            Token::Name("__ctx") => {
                self.advance()?;
                self.expect("(")?;
                let node = match self.token.clone() {
                    Token::Text(name) if token::is_variable_name(&name) => self.variable(&name),
                    _ => return Err(self.expected("the name of a variable in quotes")),
                };
                self.advance()?;
                self.at(")")?;
                node
            }
            Token::Symbol("[") => Node::List(self.items("]")?.0),
            Token::Symbol("(") => match self.items(")")? {
                (mut terms, false) if terms.len() == 1 => terms.remove(0).node,
                (terms, _) => Node::Tuple(terms),
            },
            _ => return Err(self.not_a_value()),
        };
        self.advance()?;
        Ok(self.term(start, node))
    }

    fn variable(&mut self, name: &str) -> Node {
        self.variables.push((name.to_owned(), self.span.clone()));
        Node::Variable(self.variables.len() - 1)
    }

    /// The terms up to `close`, which is left to be read, and whether any commas stood among them.
    fn items(&mut self, close: &'static str) -> Parsed<(Vec<Term>, bool)> {
        self.advance()?;
        let mut terms = Vec::new();
        let mut has_commas = false;
        while self.token != Token::Symbol(close) {
            terms.push(self.deeper(Parser::any)?);
            if self.token != Token::Symbol(",") {
                break;
            }
            has_commas = true;
            self.advance()?;
        }
        self.at(close)?;
        Ok((terms, has_commas))
    }

    fn deeper(&mut self, read: fn(&mut Self) -> Parsed) -> Parsed {
        if self.depth == MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} deep");
            return Err(ExpressionError::new(self.span.clone(), message));
        }
        self.depth += 1;
        let term = read(self)?;
        self.depth -= 1;
        Ok(term)
    }

    fn term(&self, start: usize, node: Node) -> Term {
        let span = start..self.end;
        Term { node, span }
    }

    fn advance(&mut self) -> Parsed<()> {
        self.end = self.span.end;
        (self.token, self.span) = token::read(self.text, self.end)?;
        Ok(())
    }

    fn at(&self, symbol: &'static str) -> Parsed<()> {
        match self.token == Token::Symbol(symbol) {
            true => Ok(()),
            false if self.token == Token::End => Err(self.expected(&format!("`{symbol}`"))),
            false => Err(self.not_an_operator(&format!("`{symbol}`"))),
        }
    }

    fn expect(&mut self, symbol: &'static str) -> Parsed<()> {
        match self.token == Token::Symbol(symbol) {
            true => self.advance(),
            false => Err(self.expected(&format!("`{symbol}`"))),
        }
    }

    fn expected(&self, wanted: &str) -> ExpressionError {
        let message = match self.token {
            Token::End => format!("expected {wanted}, found the end"),
            _ => format!("expected {wanted}, found `{}`", self.written()),
        };
        ExpressionError::new(self.span.clone(), message)
    }

    fn written(&self) -> &'t str {
        &self.text[self.span.clone()]
    }

    /// What to say of a token where a value should start.
    fn not_a_value(&self) -> ExpressionError {
        let Token::Name(name) = self.token else {
            return self.expected("a value");
        };
        if let Some(meant) = meant(name) {
            let error = ExpressionError::new(self.span.clone(), format!("`{name}` is not a value"));
            return error.help(format!("write `{meant}`"));
        }
        match name {
            "not" => self
                .expected("a value")
                .help("put `not` and what it denies in parentheses"),
            "and" | "or" | "in" | "is" | "if" | "else" => self.expected("a value"),
            _ if self.text[self.span.end..].trim_start().starts_with('(') => {
                let error =
                    ExpressionError::new(self.span.clone(), format!("`{name}` cannot be called"));
                error.help("the only function is `len`")
            }
            _ => {
                let error =
                    ExpressionError::new(self.span.clone(), format!("`{name}` is not a value"));
                error.help(match token::is_variable_name(name) {
                    true => {
                        format!("write `${{{name}}}` for the variable, `'{name}'` for the text")
                    }
                    false => format!("write `'{name}'` for the text"),
                })
            }
        }
    }

    /// What to say of a token where an operator should stand, or what comes after the value.
    fn not_an_operator(&self, next: &str) -> ExpressionError {
        let error = self.expected(&format!("an operator or {next}"));
        match self.token {
            Token::Symbol("[") => error.help(WHOLE),
            Token::Symbol("(") => error.help("the only function is `len`"),
            Token::Symbol("-") => error.help(NO_ARITHMETIC),
            Token::Symbol(",") => error.help("a list is written in `[ ]`, a tuple in `( )`"),
            Token::Name("if") => {
                error.help("write the condition alone; each transition has its own")
            }
            Token::Name(name) => match meant(name) {
                Some(meant) => error.help(format!("write `{meant}`")),
                None => error,
            },
            _ => error,
        }
    }
}

/// The word that somebody meant who knows it from another language.
fn meant(name: &str) -> Option<&'static str> {
    let words = ["True", "False", "None", "and", "or", "not", "in", "is"];
    match name.to_lowercase().as_str() {
        "null" | "nil" => Some("None"),
        folded => words
            .into_iter()
            .find(|it| *it != name && it.to_lowercase() == folded),
    }
}

/// Refuses `is` with what has no identity to ask for.
fn check_identity(comparison: Comparison, sides: [&Term; 2]) -> Parsed<()> {
    let instead = match comparison {
        Comparison::Is => "write `==`",
        Comparison::IsNot => "write `!=`",
        _ => return Ok(()),
    };
    let has_none = |it: &&Term| {
        matches!(
            it.node,
            Node::Number(_) | Node::Text(_) | Node::List(_) | Node::Tuple(_)
        )
    };
    match sides.into_iter().find(has_none) {
        Some(term) => {
            let message = "`is` compares with `None`, `True` or `False` only";
            Err(ExpressionError::new(term.span.clone(), message).help(instead))
        }
        None => Ok(()),
    }
}
