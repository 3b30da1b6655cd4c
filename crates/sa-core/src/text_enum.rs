//! Enums that are a word in SQL, JSON and on the command line: one spelling, written once.

/// Declares an enum together with the word each arm is in the database, in JSON and in output.
///
/// Reading an unknown word is an error: a row this binary cannot understand must not be taken for another.
macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$arm_doc:meta])* $arm:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$arm_doc])* #[serde(rename = $word)] $arm,)+
        }

        impl $name {
            /// Every arm, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$arm,)+];

            /// The word for it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$arm => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|arm| arm.as_str() == word).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|arm| arm.as_str()).collect();
                    format!("{word:?} is none of {}", known.join(", "))
                })
            }
        }

        impl sqlx::Type<sqlx::MySql> for $name {
            fn type_info() -> sqlx::mysql::MySqlTypeInfo {
                <str as sqlx::Type<sqlx::MySql>>::type_info()
            }

            fn compatible(ty: &sqlx::mysql::MySqlTypeInfo) -> bool {
                <str as sqlx::Type<sqlx::MySql>>::compatible(ty)
            }
        }

        impl<'q> sqlx::Encode<'q, sqlx::MySql> for $name {
            fn encode_by_ref(&self, buf: &mut Vec<u8>) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                <&str as sqlx::Encode<'q, sqlx::MySql>>::encode_by_ref(&self.as_str(), buf)
            }
        }

        impl<'r> sqlx::Decode<'r, sqlx::MySql> for $name {
            fn decode(value: sqlx::mysql::MySqlValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
                Ok(<&str as sqlx::Decode<'r, sqlx::MySql>>::decode(value)?.parse()?)
            }
        }
    };
}

pub(crate) use text_enum;
