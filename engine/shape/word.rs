//! The words in which types are written: `str`, `list[Finding]`, `Optional[int]`.

use super::Type;

/// What may stand around a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    List,
    Optional,
}

impl Around {
    pub(super) fn put(self, inner: Type) -> Type {
        match self {
            Around::List => Type::List(inner.into()),
            Around::Optional => inner.optional(),
        }
    }
}

/// Takes a type apart: what stands around it, the outermost first, and the word in the middle.
pub(super) fn split(text: &str) -> (Vec<Around>, &str) {
    let mut around = Vec::new();
    let mut word = text.trim();
    while let Some((outer, inner)) = word.strip_suffix(']').and_then(|it| it.split_once('[')) {
        match outer {
            "list" | "List" => around.push(Around::List),
            "Optional" => around.push(Around::Optional),
            _ => break,
        }
        word = inner.trim();
    }
    (around, word)
}

/// The type that a word names in every workflow, where it stands without `items`, `values` or `variants`.
pub(super) fn built_in(word: &str) -> Option<Type> {
    Some(match word {
        "str" | "string" => Type::Text,
        "int" | "integer" => Type::Integer,
        "float" => Type::Number,
        "bool" => Type::Boolean,
        "dict" | "Dict" => Type::AnyMapping,
        "list" | "List" => Type::AnyList,
        "optional_str" => Type::Text.optional(),
        "optional_dict" => Type::AnyMapping.optional(),
        "optional_list" => Type::AnyList.optional(),
        _ => return None,
    })
}

/// Whether a word has a meaning of its own, so that no model may have it for a name.
pub(super) fn is_reserved(word: &str) -> bool {
    built_in(word).is_some() || matches!(word, "literal" | "union" | "null")
}

/// Whether a field of this type is null where it is left out.
pub(super) fn is_optional(text: &str) -> bool {
    let (around, word) = split(text);
    match around.first() {
        Some(outermost) => *outermost == Around::Optional,
        None => matches!(word, "optional_str" | "optional_dict" | "optional_list"),
    }
}

/// What to write for a word that is a type elsewhere, but not here.
pub(super) fn advice(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "boolean" => "write `bool`",
        "number" | "double" => "write `float`, or `int` for whole numbers",
        "object" | "map" | "mapping" => "write `dict`, or name a model",
        "array" => "write `list` and say in `items` what it holds",
        "text" => "write `str`",
        "any" => "say what it can be: a `union`, `dict` for any mapping, or `List` for any list",
        "date" | "datetime" | "time" => "write `str`, and say in `description` how it is written",
        "null" | "none" => {
            "write `\"null\"` among the `variants` of a union; elsewhere `optional_str` and `Optional[...]` allow null"
        }
        "literal" | "union" => "give it a name under `models`, and write that name here",
        _ => return None,
    })
}
