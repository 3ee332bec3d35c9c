//! The rules of an algorithm. Each one can be left out, to show what it is for.

/// The rules of one model.
pub(crate) trait RuleOf: Copy + PartialEq + Send + Sync + 'static {
    const ALL: &'static [Self];

    fn name(self) -> &'static str;

    fn text(self) -> &'static str;
}

macro_rules! rules {
    ($($rule:ident $name:literal $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Rule {
            $(#[doc = $text] $rule,)*
        }

        impl $crate::rule::RuleOf for Rule {
            const ALL: &'static [Self] = &[$(Self::$rule),*];

            fn name(self) -> &'static str {
                match self { $(Self::$rule => $name,)* }
            }

            fn text(self) -> &'static str {
                match self { $(Self::$rule => $text,)* }
            }
        }
    };
}

pub(crate) use rules;
