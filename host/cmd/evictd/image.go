package main

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/shared/ociimage"
)

func newImage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image BINARY... NAME:TAG",
		Short: "Write the image of a plugin, as the chart installs it",
		Long: "Write an image that has just a plugin, a static executable, as an OCI archive. Of several BINARY each is of another\n" +
			"architecture, which its header says. The file is in the image under the name of the first BINARY. Neither a\n" +
			"container runtime nor a base image is needed, and nothing is pulled or pushed. SOURCE_DATE_EPOCH is its date.",
		Example: "  evictd plugins image bin/spot-first registry.example.org/spot-first:1.2.0\n" +
			"  evictd plugins image amd64/spot-first arm64/spot-first registry.example.org/spot-first:1.2.0",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("%d arguments, want the plugin's executable and the name of the image, see evictd plugins image --help", len(args))
			}
			return nil
		},
	}
	output := cmd.Flags().String("output", "", "file to write (default of the image's name, as spot-first_1.2.0_oci.tar)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		binaries, image := args[:len(args)-1], args[len(args)-1]
		tag, err := ociimage.ParseName(image)
		if err != nil {
			return err
		}
		plugin := filepath.Base(binaries[0])
		file := cmp.Or(*output, path.Base(tag.RepositoryStr())+"_"+tag.TagStr()+"_oci.tar")
		if err := ociimage.WritePlugin(binaries, image, file); err != nil {
			return failure{err}
		}
		return written(fmt.Fprintf(cmd.OutOrStdout(), "wrote %s with %s\non each node, or push it to your registry:\n    ctr -n k8s.io images import %[1]s\nvalues of the chart:\n"+
			"    plugins:\n    - {name: %[3]s, image: %[2]q, path: /%[3]s}\n", file, image, plugin))
	}
	return cmd
}
