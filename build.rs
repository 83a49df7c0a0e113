//! Takes the files of the API page from the archive of Swagger UI. The archive has much more: its sources and tests.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "server")]
    swagger::write();
}

#[cfg(feature = "server")]
mod swagger {
    use std::{env, fs::File, io::Cursor, path::Path};

    use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
    use zip::{ZipArchive, ZipWriter};

    include!("src/http/pages/swagger_files.rs");

    /// The folder with the files for a browser, within the release's folder in the archive.
    const FOLDER: &str = "/dist/";

    pub fn write() {
        println!("cargo::rerun-if-changed=src/http/pages/swagger_files.rs");
        let mut all = ZipArchive::new(Cursor::new(SWAGGER_UI_VENDORED)).expect("an archive");
        let dir = env::var_os("OUT_DIR").expect("cargo names a directory");
        let few = File::create(Path::new(&dir).join("swagger-ui.zip")).expect("a file");
        let mut few = ZipWriter::new(few);
        let paths: Vec<String> =
            all.file_names().filter_map(|name| Some(name.ok()?.into_owned())).collect();
        for (name, _) in FILES {
            let end = format!("{FOLDER}{name}");
            let path = paths.iter().find(|path| path.ends_with(&end));
            let path = path.unwrap_or_else(|| panic!("no {name} in the archive"));
            few.raw_copy_file_rename(all.by_name(path).expect("it is there"), name)
                .expect("a copy");
        }
        few.finish().expect("an archive");
    }
}
