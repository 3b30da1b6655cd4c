//! Finds a provider's key. It comes from the environment or from a file, never from an argument, and is never shown.

use std::path::{Path, PathBuf};

use sa_boot::Problem;
use sa_core::provider::{Auth, Provider};
use secrecy::SecretString;

/// Reads a variable of the environment.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The key of this provider, or none where it takes none.
///
/// `api_key_env = "X"` is looked up as `X`, then as the file named by `X_FILE`, then as the file `x` of
/// `$CREDENTIALS_DIRECTORY` (`OPENAI_API_KEY` becomes `openai-api-key`, as `DATABASE_URL` becomes `database-url`).
/// `api_key_file` is a path; a relative one is looked up in `$CREDENTIALS_DIRECTORY` first.
pub(crate) fn find(provider: &Provider, environment: Environment) -> Result<Option<SecretString>, Problem> {
    let variable =
        |name: &str| environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let what = || format!("provider {:?} has no key", provider.name);
    if provider.auth() == Auth::None {
        return Ok(None);
    }
    if let Some(name) = &provider.api_key_env {
        if let Some(key) = variable(name) {
            return Ok(Some(key.into()));
        }
        let file = variable(&format!("{name}_FILE")).map(PathBuf::from).or_else(|| credential(variable, name));
        return match file {
            Some(path) => read(provider, &path).map(Some),
            None => Err(Problem::usage(
                what(),
                format_args!("{name} is not set"),
                format_args!("set {name}, or {name}_FILE to a file that holds the key"),
            )),
        };
    }
    if let Some(path) = &provider.api_key_file {
        let credential = variable("CREDENTIALS_DIRECTORY").map(|folder| Path::new(&folder).join(path));
        let path = credential.filter(|path| path.exists()).unwrap_or_else(|| path.clone());
        return read(provider, &path).map(Some);
    }
    Err(Problem::usage(
        what(),
        "neither api_key_env nor api_key_file is given for it",
        "name one of them, or say auth = \"none\" if the server asks for no key",
    ))
}

fn credential(variable: impl Fn(&str) -> Option<String>, name: &str) -> Option<PathBuf> {
    let file = name.to_ascii_lowercase().replace('_', "-");
    let path = PathBuf::from(variable("CREDENTIALS_DIRECTORY")?).join(file);
    path.exists().then_some(path)
}

fn read(provider: &Provider, path: &Path) -> Result<SecretString, Problem> {
    let fault = |why: &dyn std::fmt::Display| {
        Problem::usage(
            format_args!("the key of provider {:?} cannot be read", provider.name),
            format_args!("{}: {why}", path.display()),
            "write the key, and nothing else, into that file, readable for this worker",
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
    match text.trim() {
        "" => Err(fault(&"it is empty")),
        key => Ok(key.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sa_core::provider::Catalog;
    use secrecy::ExposeSecret;

    fn find_key(settings: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let file = format!(
            "[[provider]]\nname = \"p\"\nkind = \"openai\"\nbase_url = \"http://h\"\nmodels = [\"m\"]\n{settings}"
        );
        let catalog = Catalog::load(Some(&file), |_| None).unwrap();
        let environment =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        find(catalog.default_provider(), &environment)
            .map(|key| key.map(|key| key.expose_secret().to_owned()))
            .map_err(|problem| problem.to_string())
    }

    #[test]
    fn key_comes_from_the_variable_its_file_or_the_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my-key");
        std::fs::write(&path, "from-file\n").unwrap();
        let (folder, path) = (folder.path().to_str().unwrap(), path.to_str().unwrap());
        let env = "api_key_env = \"MY_KEY\"";
        let key = |key: &str| Ok(Some(key.to_owned()));
        assert_eq!(find_key(env, &[("MY_KEY", " k "), ("MY_KEY_FILE", path)]), key("k"));
        assert_eq!(find_key(env, &[("MY_KEY", ""), ("MY_KEY_FILE", path)]), key("from-file"));
        assert_eq!(find_key(env, &[("CREDENTIALS_DIRECTORY", folder)]), key("from-file"));
        assert_eq!(find_key(&format!("api_key_file = \"{path}\""), &[]), key("from-file"));
        assert_eq!(find_key("api_key_file = \"my-key\"", &[("CREDENTIALS_DIRECTORY", folder)]), key("from-file"));
        assert_eq!(find_key("auth = \"none\"", &[]), Ok(None));
    }

    #[test]
    fn missing_key_names_its_variable() {
        let missing = find_key("api_key_env = \"MY_KEY\"", &[]).unwrap_err();
        assert!(missing.starts_with("provider \"p\" has no key: MY_KEY is not set"), "{missing}");
        assert!(find_key("", &[]).unwrap_err().contains("neither api_key_env nor api_key_file"));
        assert!(find_key("api_key_file = \"/nowhere/key\"", &[]).unwrap_err().contains("/nowhere/key"));
    }
}
