//! Writes changes into a source file, each behind the condition that it is the active one.
//!
//! The code of a change is on a line with its number, `/*M17*/`, so that a compiler error shows
//! which change cannot be built.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use syn::{
    Arm, BinOp, Block, Expr, ExprBinary, ExprStruct, ExprUnary, ImplItemFn, ItemFn, Pat,
    TraitItemFn,
    spanned::Spanned,
    visit::{self, Visit},
};

use crate::list::{Genre, Mutant};

/// The end of `src/lost.rs` in the copy: the active change, and the changes that were reached.
pub(crate) const ASKED: &str = r#"
pub(crate) fn mutant(id: u32) -> bool {
    use std::{collections::HashSet, io::Write, sync::{LazyLock, Mutex}};
    static TRIED: LazyLock<Option<u32>> =
        LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|id| id.parse().ok()));
    static REACHED: LazyLock<Option<Mutex<(HashSet<u32>, std::fs::File)>>> = LazyLock::new(|| {
        let file = std::env::var("REACHED").ok()?;
        let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
        Some(Mutex::new((HashSet::new(), file.ok()?)))
    });
    if let Some(reached) = &*REACHED {
        if let Ok(mut reached) = reached.lock() {
            if reached.0.insert(id) {
                let _ = reached.1.write_all(format!("{id}\n").as_bytes());
            }
        }
    }
    *TRIED == Some(id)
}
"#;

/// The form of the code for a change.
#[derive(Clone, Debug)]
enum Form {
    /// The beginning of a function.
    Body,
    /// Of booleans, of values that are compared, or of values that are moved.
    Binary { left: Range<usize>, op: String, right: Range<usize> },
    /// `x += y`.
    Assign { left: Range<usize>, op: String, right: Range<usize> },
    /// `!x` or `-x`.
    Unary { op: String, operand: Range<usize> },
    /// The guard of an arm: the range covers `if` and the condition.
    Arm { guard: Option<Range<usize>> },
    /// A struct: the start of each field, up to the next one.
    Struct { fields: Vec<Range<usize>> },
}

/// A place with a change.
#[derive(Clone, Debug)]
struct Site {
    whole: Range<usize>,
    form: Form,
    /// The number, the kind, the field, and the replacement.
    changes: Vec<(usize, Genre, usize, String)>,
}

/// Finds the places.
#[derive(Default)]
struct Sites {
    /// By the position at which cargo-mutants says that the change begins.
    sites: HashMap<(Kind, usize), Site>,
    bodies: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Operator,
    Arm,
    Guard,
    Field,
}

fn range(spanned: &impl Spanned) -> Range<usize> {
    spanned.span().byte_range()
}

impl Sites {
    fn add(&mut self, genre: Kind, at: usize, whole: Range<usize>, form: Form) {
        self.sites.insert((genre, at), Site { whole, form, changes: Vec::new() });
    }

    fn body(&mut self, block: &Block) {
        self.bodies.push(range(block));
    }
}

/// Returns `true` if the condition is one of several that bind names.
fn binds(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Sites {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.body(&item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.body(&item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.body(block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        let op = range(&binary.op);
        let (left, right) = (range(&binary.left), range(&binary.right));
        let text = op_text(&binary.op);
        let whole = left.start..right.end;
        let form = match text {
            text if text.ends_with('=') && !["==", "!=", "<=", ">="].contains(&text) => {
                Form::Assign { left, op: text.into(), right }
            }
            text => Form::Binary { left, op: text.into(), right },
        };
        if !binds(&binary.left) && !binds(&binary.right) {
            self.add(Kind::Operator, op.start, whole, form);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast ExprUnary) {
        let (op, operand) = (range(&unary.op), range(&unary.expr));
        let text = match unary.op {
            syn::UnOp::Not(_) => "!",
            _ => "-",
        };
        let form = Form::Unary { op: text.into(), operand: operand.clone() };
        self.add(Kind::Operator, op.start, op.start..operand.end, form);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let (whole, guard) = match &arm.pat {
            Pat::Guard(guarded) => {
                let guard = range(&*guarded.guard);
                (range(&guarded.if_token).start..guard.end, Some(guard))
            }
            pat => (range(pat).end..range(pat).end, None),
        };
        if let Some(guard) = &guard {
            let form = Form::Arm { guard: Some(guard.clone()) };
            self.add(Kind::Guard, guard.start, whole.clone(), form);
        }
        self.add(Kind::Arm, range(arm).start, whole, Form::Arm { guard });
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expr: &'ast ExprStruct) {
        let starts: Vec<_> = expr.fields.iter().map(|field| range(field).start).collect();
        if let Some(rest) = &expr.rest {
            let end = expr.dot2_token.as_ref().map_or(range(&**rest), range).start;
            let ends = starts.iter().skip(1).copied().chain([end]);
            let fields: Vec<_> = starts.iter().zip(ends).map(|(start, end)| *start..end).collect();
            for start in &starts {
                let form = Form::Struct { fields: fields.clone() };
                self.add(Kind::Field, *start, range(expr), form);
            }
        }
        visit::visit_expr_struct(self, expr);
    }
}

fn op_text(op: &BinOp) -> &'static str {
    match op {
        BinOp::Add(_) => "+",
        BinOp::Sub(_) => "-",
        BinOp::Mul(_) => "*",
        BinOp::Div(_) => "/",
        BinOp::Rem(_) => "%",
        BinOp::And(_) => "&&",
        BinOp::Or(_) => "||",
        BinOp::BitXor(_) => "^",
        BinOp::BitAnd(_) => "&",
        BinOp::BitOr(_) => "|",
        BinOp::Shl(_) => "<<",
        BinOp::Shr(_) => ">>",
        BinOp::Eq(_) => "==",
        BinOp::Lt(_) => "<",
        BinOp::Le(_) => "<=",
        BinOp::Ne(_) => "!=",
        BinOp::Ge(_) => ">=",
        BinOp::Gt(_) => ">",
        BinOp::AddAssign(_) => "+=",
        BinOp::SubAssign(_) => "-=",
        BinOp::MulAssign(_) => "*=",
        BinOp::DivAssign(_) => "/=",
        BinOp::RemAssign(_) => "%=",
        BinOp::BitXorAssign(_) => "^=",
        BinOp::BitAndAssign(_) => "&=",
        BinOp::BitOrAssign(_) => "|=",
        BinOp::ShlAssign(_) => "<<=",
        BinOp::ShrAssign(_) => ">>=",
        _ => "?",
    }
}

/// Writes these changes into a file's text; also returns those that have no place in it.
pub(crate) fn plant(text: &str, mutants: &[(usize, &Mutant)]) -> (String, Vec<usize>) {
    let file = syn::parse_file(text).expect("the sources are Rust");
    let mut sites = Sites::default();
    sites.visit_file(&file);
    let lines: Vec<usize> =
        [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let offset = |mutant: &Mutant| {
        let (line, column) = (mutant.span.start.line - 1, mutant.span.start.column - 1);
        let rest = &text[lines[line]..];
        lines[line] + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
    };
    // By start, and the longer ones first, so that nested places follow.
    let mut chosen: BTreeMap<(usize, usize, u8), Site> = BTreeMap::new();
    let mut lost = Vec::new();
    for (id, mutant) in mutants {
        let at = offset(mutant);
        let site = match mutant.genre {
            Genre::FnValue => {
                let around = sites.bodies.iter().filter(|body| body.contains(&at));
                around.min_by_key(|body| body.len()).map(|body| Site {
                    whole: body.start + 1..body.start + 1,
                    form: Form::Body,
                    changes: Vec::new(),
                })
            }
            Genre::BinaryOperator | Genre::UnaryOperator => {
                sites.sites.get(&(Kind::Operator, at)).cloned()
            }
            Genre::MatchArm => sites.sites.get(&(Kind::Arm, at)).cloned(),
            Genre::MatchArmGuard => sites.sites.get(&(Kind::Guard, at)).cloned(),
            Genre::StructField => sites.sites.get(&(Kind::Field, at)).cloned(),
        };
        let Some(site) = site else {
            lost.push(*id);
            continue;
        };
        let kind = u8::from(matches!(site.form, Form::Arm { .. }));
        let key = (site.whole.start, usize::MAX - site.whole.end, kind);
        let change = (*id, mutant.genre, at, mutant.replacement.clone());
        chosen.entry(key).or_insert(site).changes.push(change);
    }
    let sites: Vec<_> = chosen.into_values().collect();
    (render(text, &sites, 0..text.len()).replace("const fn", "fn"), lost)
}

/// Returns the text of a range with its changes.
fn render(text: &str, sites: &[Site], range: Range<usize>) -> String {
    let (mut written, mut at) = (String::new(), range.start);
    for (index, site) in sites.iter().enumerate() {
        let whole = &site.whole;
        if whole.start < at || whole.end > range.end {
            continue;
        }
        written.push_str(&text[at..whole.start]);
        written.push_str(&change(text, &sites[index + 1..], site));
        at = whole.end;
    }
    written + &text[at..range.end]
}

fn change(text: &str, inner: &[Site], site: &Site) -> String {
    let part = |range: &Range<usize>| render(text, inner, range.clone());
    let is = |id: &usize| format!("crate::lost::mutant({id}) /*M{id}*/");
    let choose = |new: &dyn Fn(&str, usize) -> String, old: String| {
        let mut chosen = String::new();
        for (id, _, at, replacement) in &site.changes {
            chosen += &format!("\nif {} {{ {} }}\nelse ", is(id), new(replacement, *at));
        }
        format!("{chosen}{{ {old} }}")
    };
    match &site.form {
        Form::Body => {
            let values = site
                .changes
                .iter()
                .map(|(id, _, _, value)| format!("\nif {} {{ return {value}; }}\n", is(id)));
            values.collect()
        }
        Form::Binary { left, op, right } => {
            let (left, right) = (part(left), part(right));
            match op.as_str() {
                "&&" | "||" => {
                    let new = |new: &str, _| format!("l {new} ({right})");
                    let old = format!("l {op} ({right})");
                    format!("({{ let l: bool = {left}; {} }})", choose(&new, old))
                }
                "==" | "!=" | "<" | ">" | "<=" | ">=" => {
                    let new = |new: &str, _| format!("*l {new} *r");
                    let chosen = choose(&new, format!("*l {op} *r"));
                    format!("(match (&({left}), &({right})) {{ (l, r) => {{ {chosen} }} }})")
                }
                _ => {
                    let new = |new: &str, _| format!("l {new} r");
                    let chosen = choose(&new, format!("l {op} r"));
                    format!("(match (({left}), ({right})) {{ (l, r) => {{ {chosen} }} }})")
                }
            }
        }
        Form::Assign { left, op, right } => {
            let (left, right) = (part(left), part(right));
            let new = |new: &str, _| format!("{left} {new} {right}");
            choose(&new, format!("{left} {op} {right}"))
        }
        Form::Unary { op, operand } => {
            let chosen = choose(&|_, _| "v".into(), format!("{op}v"));
            format!("({{ let v = {}; {chosen} }})", part(operand))
        }
        Form::Arm { guard } => {
            let mut asked =
                guard.as_ref().map_or("true".into(), |guard| format!("({})", part(guard)));
            for (id, genre, _, replacement) in &site.changes {
                let is = is(id);
                asked = match (genre, replacement.as_str()) {
                    (Genre::MatchArmGuard, "true") => format!("({is}\n || {asked})"),
                    _ => format!("(!{is}\n && {asked})"),
                };
            }
            format!("\n if {asked}")
        }
        Form::Struct { fields } => {
            let whole = &site.whole;
            let new = |_: &str, at: usize| {
                let field = fields
                    .iter()
                    .find(|field| field.start == at)
                    .expect("the struct has the field");
                format!("{}{}", part(&(whole.start..field.start)), part(&(field.end..whole.end)))
            };
            format!("({})", choose(&new, part(whole)))
        }
    }
}
