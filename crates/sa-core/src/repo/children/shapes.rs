//! Many rows in a statement, each value bound straight to its column.

/// Defines a function that inserts any number of rows by statements of sixteen, of four and of one: few enough to stay
/// prepared, and checked as any other. `$one` is the statement with its first row, `$more` a further row, and the fields
/// are the row's values in that order.
macro_rules! insert_in_shapes {
    ($(#[$doc:meta])* $visible:vis fn $name:ident($Row:ty), $one:literal, $more:literal, $fields:tt) => {
        $(#[$doc])*
        $visible async fn $name(tx: &mut MySqlConnection, rows: &[$Row]) -> Result<(), Error> {
            let (sixteens, rest) = rows.as_chunks::<16>();
            let (fours, ones) = rest.as_chunks::<4>();
            for rows in sixteens {
                insert_in_shapes!(tx rows [$one] $more $fields [] 0; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            }
            for rows in fours {
                insert_in_shapes!(tx rows [$one] $more $fields [] 0; 1 2 3);
            }
            for rows in ones.as_chunks::<1>().0 {
                insert_in_shapes!(tx rows [$one] $more $fields [] 0;);
            }
            Ok(())
        }
    };
    ($tx:ident $rows:ident [$($sql:tt)+] $more:literal [$($field:ident),+] [$($values:tt)*] $n:literal;) => {
        sqlx::query!($($sql)+, $($values)* $($rows[$n].$field),+).execute(&mut *$tx).await?;
    };
    ($tx:ident $rows:ident [$($sql:tt)+] $more:literal [$($field:ident),+] [$($values:tt)*] $n:literal;
     $next:literal $($rest:literal)*) => {
        insert_in_shapes!($tx $rows [$($sql)+ + $more] $more [$($field),+] [$($values)* $($rows[$n].$field,)+] $next; $($rest)*);
    };
}

pub(super) use insert_in_shapes;
