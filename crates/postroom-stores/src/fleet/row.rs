//! A row of a query on a master database, read as a store.

use postroom_core::fleet::{Listed, StoreId};

use super::url::{KINDS, Kind, StoreUrl, Template};

/// What stands in a column, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes,
}

/// The columns of a row by name.
pub(super) struct Columns(pub(super) Vec<(String, Cell)>);

impl Columns {
    /// The store that the row lists, or what is wrong with which column. What a URL holds is never
    /// told.
    pub(super) fn listed(&self, template: Option<&Template>) -> Result<Listed<StoreUrl>, String> {
        let id =
            StoreId::new(self.required("id")?).map_err(|error| format!("column id: {error}"))?;
        let of_store = |why: String| format!("store {id}: {why}");
        let url = match template {
            Some(template) => template.fill(|column| self.required(column)),
            None => self.url().map(str::to_owned),
        };
        let url = url.map_err(of_store)?;
        let schema = self.optional("schema").map_err(of_store)?.map(str::to_owned);
        let weight = self.weight().map_err(of_store)?;
        let keys = self.keys().map_err(of_store)?;
        Ok(Listed { id, place: StoreUrl::new(url, schema), weight, keys })
    }

    fn url(&self) -> Result<&str, String> {
        if self.cell("url").is_none() {
            return Err("there is no column url; select one, or give a URL template".to_owned());
        }
        let url = self.required("url")?;
        match Kind::of(url) {
            Some(_) => Ok(url),
            None => Err(format!("column url must be {KINDS}")),
        }
    }

    fn weight(&self) -> Result<u32, String> {
        let Some(text) = self.optional("weight")? else { return Ok(1) };
        let number = text.parse().ok().filter(|weight| *weight > 0);
        number.ok_or_else(|| format!("column weight must be 1 to {}, is {text:?}", u32::MAX))
    }

    /// Texts with commas between them, or a JSON array of texts or whole numbers.
    fn keys(&self) -> Result<Vec<String>, String> {
        let Some(text) = self.optional("keys")?.map(str::trim) else { return Ok(Vec::new()) };
        let keys = if text.starts_with('[') {
            json_keys(text)?
        } else if text.is_empty() {
            Vec::new()
        } else {
            text.split(',').map(|key| key.trim().to_owned()).collect()
        };
        match keys.iter().any(String::is_empty) {
            true => Err("column keys has an empty key in it".to_owned()),
            false => Ok(keys),
        }
    }

    fn required(&self, column: &str) -> Result<&str, String> {
        match self.cell(column) {
            None => Err(format!("there is no column {column}; select one")),
            Some(Cell::Null) => Err(format!("column {column} is null")),
            Some(Cell::Bytes) => Err(format!("column {column} is not text; cast it")),
            Some(Cell::Text(text)) => Ok(text),
        }
    }

    /// Nothing when there is no such column, or nothing in it.
    fn optional(&self, column: &str) -> Result<Option<&str>, String> {
        match self.cell(column) {
            None | Some(Cell::Null) => Ok(None),
            Some(_) => self.required(column).map(Some),
        }
    }

    /// Databases differ in whose case they keep.
    fn cell(&self, column: &str) -> Option<&Cell> {
        let named = |(name, _): &&(String, Cell)| name.eq_ignore_ascii_case(column);
        self.0.iter().find(named).map(|(_, cell)| cell)
    }
}

fn json_keys(text: &str) -> Result<Vec<String>, String> {
    let wrong = || "column keys must be texts with commas between, or a JSON array of them";
    let values: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|_| wrong())?;
    let key = |value| match value {
        serde_json::Value::String(key) => Ok(key),
        serde_json::Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        _ => Err(wrong().to_owned()),
    };
    values.into_iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(columns: &[(&str, &str)]) -> Columns {
        let cell = |(name, text): &(&str, &str)| match *text {
            "NULL" => ((*name).to_owned(), Cell::Null),
            text => ((*name).to_owned(), Cell::Text(text.to_owned())),
        };
        Columns(columns.iter().map(cell).collect())
    }

    const ID: (&str, &str) = ("ID", "acme");
    const URL: (&str, &str) = ("url", "mysql://a:s3cret@db/acme");

    #[test]
    fn fleet_1_a_row_is_a_store() {
        let row = columns(&[ID, URL, ("weight", "3"), ("keys", " a , b"), ("schema", "shop")]);
        let listed = row.listed(None).expect("a store");
        assert_eq!((listed.id.as_str(), listed.weight), ("acme", 3));
        assert_eq!((listed.place.as_str(), listed.place.schema()), (URL.1, Some("shop")));
        assert_eq!(listed.keys, ["a", "b"]);
        let least = columns(&[ID, URL, ("weight", "NULL"), ("keys", "")]);
        let least = least.listed(None).expect("a store");
        assert_eq!((least.weight, least.keys.len(), least.place.schema()), (1, 0, None));
        let json = columns(&[ID, URL, ("keys", r#"["a,b", 7]"#)]).listed(None).expect("a store");
        assert_eq!(json.keys, ["a,b", "7"]);
    }

    #[test]
    fn fleet_1_what_is_wrong_with_a_row_is_named_and_no_secret_is() {
        for (row, expected) in [
            (columns(&[URL]), "there is no column id"),
            (columns(&[("id", "NULL"), URL]), "column id is null"),
            (columns(&[("id", ""), URL]), "column id: "),
            (columns(&[ID]), "store acme: there is no column url"),
            (columns(&[ID, ("url", "s3cret")]), "store acme: column url must be sqlite:FILE"),
            (columns(&[ID, URL, ("weight", "0")]), "column weight must be 1 to 4294967295, is"),
            (columns(&[ID, URL, ("weight", "1.5")]), "column weight must be"),
            (columns(&[ID, URL, ("keys", "a,,b")]), "column keys has an empty key"),
            (columns(&[ID, URL, ("keys", "[1.5]")]), "column keys must be texts"),
            (Columns(vec![("id".into(), Cell::Bytes)]), "column id is not text; cast it"),
        ] {
            let error = row.listed(None).expect_err(expected);
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn fleet_1_a_template_takes_any_column() {
        let template = Template::parse("postgres://relay@{host}/{Database}").expect("a template");
        let row = columns(&[ID, ("host", "db-1"), ("database", "acme prod")]);
        let listed = row.listed(Some(&template)).expect("a store");
        assert_eq!(listed.place.as_str(), "postgres://relay@db-1/acme%20prod");
        let error =
            columns(&[ID, ("host", "db-1")]).listed(Some(&template)).expect_err("no column");
        assert_eq!(error, "store acme: there is no column Database; select one");
    }
}
