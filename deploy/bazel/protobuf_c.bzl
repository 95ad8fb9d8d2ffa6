"""Generates protobuf-c sources and the descriptor set of one .proto file."""

def _protobuf_c_sources_impl(ctx):
    proto = ctx.file.src
    stem = ctx.attr.import_path[:-len(".proto")]
    header = ctx.actions.declare_file(stem + ".pb-c.h")
    source = ctx.actions.declare_file(stem + ".pb-c.c")
    descriptors = ctx.actions.declare_file(stem + ".descriptors.bin")
    output_root = header.path[:-len(stem + ".pb-c.h") - 1]

    # protoc resolves the file by its import path below the root where it lies.
    import_root = proto.path[:-len(ctx.attr.import_path) - 1] or "."
    ctx.actions.run_shell(
        inputs = [proto],
        outputs = [header, source],
        command = "protoc-c --proto_path='{}' --c_out='{}' '{}'".format(import_root, output_root, proto.path),
        mnemonic = "ProtobufC",
    )
    ctx.actions.run_shell(
        inputs = [proto],
        outputs = [descriptors],
        command = "protoc --proto_path='{}' --include_imports --descriptor_set_out='{}' '{}'".format(
            import_root,
            descriptors.path,
            proto.path,
        ),
        mnemonic = "DescriptorSet",
    )
    return [
        DefaultInfo(files = depset([header, source])),
        OutputGroupInfo(
            headers = depset([header]),
            sources = depset([source]),
            descriptors = depset([descriptors]),
        ),
    ]

_protobuf_c_sources = rule(
    implementation = _protobuf_c_sources_impl,
    attrs = {
        "import_path": attr.string(mandatory = True),
        "src": attr.label(allow_single_file = [".proto"], mandatory = True),
    },
)

def protobuf_c_library(name, src, import_path, visibility = None):
    """A cc_library of the messages in src, and the file group NAME_descriptors.

    Args:
      name: the library's name.
      src: label of the .proto file.
      import_path: the path by which .proto files and #include lines name it.
      visibility: as everywhere.
    """
    _protobuf_c_sources(
        name = name + "_generated",
        src = src,
        import_path = import_path,
    )
    for group in ["headers", "sources", "descriptors"]:
        native.filegroup(
            name = name + "_" + group,
            srcs = [name + "_generated"],
            output_group = group,
            visibility = visibility,
        )
    native.cc_library(
        name = name,
        srcs = [name + "_sources"],
        hdrs = [name + "_headers"],
        # Generated code is not held to the project's warnings.
        copts = ["-w"],
        includes = ["."],
        visibility = visibility,
        deps = ["//deploy/bazel/system:protobuf_c"],
    )
