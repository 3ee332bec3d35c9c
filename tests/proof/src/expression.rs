//! S-expressions: the form of the transition system, and of what the solver receives.

use std::{collections::BTreeMap, fmt, rc::Rc};

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Expr {
    Atom(Rc<str>),
    /// A sentence for readers, in quotation marks.
    Text(Rc<str>),
    List(Rc<[Expr]>),
}

/// What replaces each name.
pub(crate) type Bindings = BTreeMap<Rc<str>, Expr>;

impl Expr {
    /// Returns all expressions in this text. A semicolon starts a comment.
    pub(crate) fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut open = vec![Vec::new()];
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                ';' => rest.find('\n').unwrap_or(rest.len()),
                '"' => rest[1..].find('"').ok_or("an open quotation mark")? + 2,
                '(' | ')' => 1,
                _ => rest
                    .find(|c: char| c.is_whitespace() || "();".contains(c))
                    .unwrap_or(rest.len()),
            };
            let token = &rest[..length];
            let done = match first {
                ';' => None,
                '(' => {
                    open.push(Vec::new());
                    None
                }
                ')' => open.pop().map(list),
                '"' => Some(Self::Text(token.trim_matches('"').into())),
                _ => Some(atom(token)),
            };
            if let Some(done) = done {
                open.last_mut().ok_or("a parenthesis too many")?.push(done);
            }
            rest = rest[length..].trim_start();
        }
        match <[_; 1]>::try_from(open) {
            Ok([all]) => Ok(all),
            Err(_) => Err("a parenthesis is missing".into()),
        }
    }

    pub(crate) fn atom(&self) -> Result<&Rc<str>, String> {
        match self {
            Self::Atom(name) => Ok(name),
            _ => Err(format!("a name is expected, not {self}")),
        }
    }

    pub(crate) fn text(&self) -> Result<&Rc<str>, String> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err(format!("a sentence is expected, not {self}")),
        }
    }

    pub(crate) fn list(&self) -> Result<&[Self], String> {
        match self {
            Self::List(items) => Ok(items),
            _ => Err(format!("a list is expected, not {self}")),
        }
    }

    /// Returns the first name of a list, and the rest.
    pub(crate) fn form(&self) -> Result<(&str, &[Self]), String> {
        match self.list()? {
            [Self::Atom(head), rest @ ..] => Ok((head, rest)),
            _ => Err(format!("a form is expected, not {self}")),
        }
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Atom(atom) if &**atom == name)
    }

    /// Replaces free names.
    pub(crate) fn replace(&self, bindings: &Bindings) -> Self {
        match self {
            Self::Atom(name) => bindings.get(name).unwrap_or(self).clone(),
            Self::Text(_) => self.clone(),
            Self::List(items) => list(items.iter().map(|item| item.replace(bindings)).collect()),
        }
    }
}

pub(crate) fn atom(name: impl AsRef<str>) -> Expr {
    Expr::Atom(name.as_ref().into())
}

pub(crate) fn list(items: Vec<Expr>) -> Expr {
    Expr::List(items.into())
}

/// Returns the application of a function or operator.
pub(crate) fn call(head: impl AsRef<str>, args: impl IntoIterator<Item = Expr>) -> Expr {
    list([atom(head)].into_iter().chain(args).collect())
}

impl fmt::Display for Expr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Atom(name) => out.write_str(name),
            Self::Text(text) => write!(out, "\"{text}\""),
            Self::List(items) => {
                out.write_str("(")?;
                for (i, item) in items.iter().enumerate() {
                    write!(out, "{}{item}", if i > 0 { " " } else { "" })?;
                }
                out.write_str(")")
            }
        }
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_parsed_without_comments() {
        let parsed = Expr::parse("(a (b \"c; d\")) ; e\n f").expect("it is correct");
        assert_eq!(format!("{parsed:?}"), "[(a (b \"c; d\")), f]");
        for wrong in ["(a", "a)", "(\"a)"] {
            assert!(Expr::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_given_names_are_replaced() {
        let parsed = Expr::parse("(f a (g b))").expect("it is correct");
        let bindings = Bindings::from([("a".into(), atom("c"))]);
        assert_eq!(parsed[0].replace(&bindings).to_string(), "(f c (g b))");
    }
}
